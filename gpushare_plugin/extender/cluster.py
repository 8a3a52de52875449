"""The ledger: which pods hold what on which node, as the watches and our own binds tell.

Rule 1: what is told is kept as it is; what follows from it is worked out anew (`rooms`).
Rule 2: pods are known by UID. A terminating pod counts; so does one that was bound around
us, and one on a node that is not known (yet).
Rule 3: a pod never loses its node: news that says so is old.
Rule 4: `generation` grows at each change, so what was worked out of it can be kept.
Knows no clock and no I/O.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import ENDED, Pod, counts, requested_units
from gpushare_plugin.core.room import NodeRoom
from gpushare_plugin.core.shared_node import SharedNode, shared_node
from gpushare_plugin.extender.assumptions import Assumptions
from gpushare_plugin.extender.change_log import ChangeLog
from gpushare_plugin.extender.rooms import Rooms, Seated
from gpushare_plugin.ports.cluster import Change, Gone, Node, Upserted


class Cluster:
    """Nodes, pods and assumptions, and the room that each node has left.

    Attributes:
        synced: whether all that was there at the start has been told; set by who tells it.
        assumptions: the pods that are being bound.
    """

    def __init__(self, names: Dialect) -> None:
        self.synced = False
        self.assumptions = Assumptions(self._touch)
        self._names = names
        self._nodes: dict[str, Node] = {}
        self._unhealthy: dict[str, frozenset[int]] = {}
        self._pods: dict[str, Pod] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._rooms = Rooms(names, self._read, self.pods_on)
        self._log = ChangeLog()
        self._listeners: list[Callable[[str], None]] = []

    # --------------------------------------------------------------- what the watches tell

    def node_changed(self, change: Change[Node]) -> None:
        """Take a node as it is now, or forget it; another one of its name may have come."""
        match change:
            case Upserted(node) if self._nodes.get(node.name) != node:
                self._nodes[node.name] = node
            case Gone(node) if (known := self._nodes.get(node.name)) and known.uid == node.uid:
                del self._nodes[node.name]
            case _:
                return
        self._forget_cards(change.item.name)

    def unhealthy_changed(self, node_name: str, indices: frozenset[int]) -> None:
        """Take the cards of a node that somebody declared unhealthy, by index; none is as well."""
        if self._unhealthy.get(node_name, frozenset()) == indices:
            return
        self._unhealthy[node_name] = indices
        if not indices:
            del self._unhealthy[node_name]
        self._forget_cards(node_name)

    def pod_changed(self, change: Change[Pod]) -> None:
        """Take a pod as it is now, or forget it."""
        pod = change.item
        before = self._pods.get(pod.uid)
        match change:
            case Gone():
                self._pods.pop(pod.uid, None)
                self.assumptions.settle(pod.uid)
                self._unseat(before)
            case _ if pod == before or _is_old(pod, before):
                return
            case _:
                self._pods[pod.uid] = pod
                self._unseat(before)
                self._seat(pod)
                if pod.node_name or pod.phase in ENDED:
                    self.assumptions.settle(pod.uid)

    # ------------------------------------------------------------------------- what is so

    @property
    def generation(self) -> int:
        """Grows at each change of what `room` returns."""
        return self._log.generation

    def changed_since(self, generation: int) -> set[str] | None:
        """Return the nodes that changed after a generation; None: too many to be known."""
        return self._log.since(generation)

    @property
    def node_names(self) -> Iterable[str]:
        """All nodes that there are, sharing ones and others."""
        return self._nodes.keys()

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All pods that were told of, by UID, bound and waiting; not a copy."""
        return MappingProxyType(self._pods)

    def is_seen(self, uid: str) -> bool:
        """Say whether the watch has shown the pod bound."""
        pod = self._pods.get(uid)
        return pod is not None and bool(pod.node_name)

    def seats_on(self, node_name: str, *, without: str = "") -> list[Seated]:
        """Return the pods that hold something of a known node, and what; see `pods_on`."""
        return self._rooms.seated(node_name, self.pods_on(node_name, without=without))

    def pods_on(self, node_name: str, *, without: str = "") -> list[Pod]:
        """Return the pods that hold something on a node, assumed ones as if they were bound.

        `without` is the UID of a pod of which no assumption counts.
        """
        bound = self._on.get(node_name, {})
        assumed = [each.pod for each in self.assumptions.on(node_name)]
        more = [pod for pod in assumed if pod.uid not in bound and pod.uid != without]
        return [*bound.values(), *more]

    def room(self, node_name: str, *, without: str = "") -> NodeRoom | None:
        """Return what a node has left; None if there is no such node.

        `without` is the UID of a pod whose own assumption does not stand in its way.
        """
        if node_name in self.assumed_on(without):
            return self._rooms.beside(node_name, self.pods_on(node_name, without=without))
        return self._rooms.of(node_name)

    def assumed_on(self, uid: str) -> frozenset[str]:
        """Return the nodes on which a pod is assumed to be, or to come."""
        return frozenset(each.pod.node_name for each in self.assumptions.of(uid))

    def rooms(self) -> Mapping[str, NodeRoom]:
        """Return what every node has left, as of now; not a copy."""
        return self._rooms.all()

    def largest_free(self) -> Mapping[str, int]:
        """Return `largest_free_units` of every node's room, as of now; not a copy."""
        return self._rooms.largest_free()

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call this with the name of a node after each of its changes; it must not change any."""
        self._listeners.append(listener)

    # ------------------------------------------------------------------------------- within

    def _forget_cards(self, node_name: str) -> None:
        self._rooms.node_changed(node_name)
        self._touch(node_name)

    def _seat(self, pod: Pod) -> None:
        if counts(pod) and asks(pod, self._names):
            self._on.setdefault(pod.node_name, {})[pod.uid] = pod
            self._touch(pod.node_name)

    def _unseat(self, pod: Pod | None) -> None:
        if pod is None or pod.uid not in self._on.get(pod.node_name, {}):
            return
        del self._on[pod.node_name][pod.uid]
        if not self._on[pod.node_name]:
            del self._on[pod.node_name]
        self._touch(pod.node_name)

    def _touch(self, node_name: str) -> None:
        self._rooms.pods_changed(node_name)
        self._log.add(node_name)
        for listener in self._listeners:
            listener(node_name)

    def _read(self, node_name: str) -> SharedNode | None:
        node = self._nodes.get(node_name)
        if node is None:
            return None
        return shared_node(
            node.name,
            annotations=node.annotations,
            capacity=node.capacity,
            allocatable=node.allocatable,
            ready=node.ready,
            names=self._names,
            unhealthy_indices=self._unhealthy.get(node.name, frozenset()),
        )


def asks(pod: Pod, names: Dialect) -> bool:
    """Say whether the pod asks for anything of ours."""
    resources = (names.memory_resource, names.core_resource)
    return any(requested_units(pod, each) > 0 for each in resources)


def _is_old(pod: Pod, before: Pod | None) -> bool:
    return before is not None and bool(before.node_name) and not pod.node_name
