"""What the scheduler believes of the cluster: its cache, assumptions included.

Rule 1: a pod that was assumed on a node counts there until the watch shows where it is, or
until it is forgotten.
Rule 2: the room of a node is worked out anew whenever its pods change, never kept by adding
and taking away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpushare_plugin.sim.scheduler.objects import PODS_RESOURCE, Amounts, NodeInfo, PodInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node and the pods on it."""

    node: NodeInfo
    pods: tuple[PodInfo, ...]
    used: Amounts

    def without(self, uids: frozenset[str]) -> "Room":
        """Return the node as if these pods were gone."""
        return room_of(self.node, (pod for pod in self.pods if pod.uid not in uids))

    def beside(self, more: Iterable[PodInfo]) -> "Room":
        """Return the node as if these pods were there too."""
        return room_of(self.node, (*self.pods, *more))


def room_of(node: NodeInfo, pods: Iterable[PodInfo]) -> Room:
    """Return the node with these pods on it."""
    used: dict[str, int] = {}
    held = tuple(pods)
    for pod in held:
        for name, amount in pod.requests.items():
            used[name] = used.get(name, 0) + amount
    used[PODS_RESOURCE] = 1000 * len(held)
    return Room(node=node, pods=held, used=used)


class Cluster:
    """Nodes, pods, assumptions and nominations, by name or UID."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.pods: dict[str, PodInfo] = {}
        """What the watch shows."""
        self.assumed: dict[str, PodInfo] = {}
        """Pods with the node that was chosen for them, until the watch shows them bound."""
        self.nominated: dict[str, PodInfo] = {}
        """Pods that wait for victims to go, with the node they were promised."""
        self._rooms: dict[str, Room] = {}

    # ------------------------------------------------------------------- from the watch

    def set_node(self, node: NodeInfo) -> None:
        """Take over a node as it is now."""
        self.nodes[node.name] = node
        self._rooms.pop(node.name, None)

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods stay until the watch takes them away."""
        self.nodes.pop(name, None)
        self._rooms.pop(name, None)

    def set_pod(self, pod: PodInfo) -> None:
        """Take over a pod as it is now."""
        self._changed(pod.uid)
        self.pods[pod.uid] = pod
        if pod.node_name:
            self.assumed.pop(pod.uid, None)
            self.nominated.pop(pod.uid, None)
        self._changed(pod.uid)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone, or ended."""
        self._changed(uid)
        for table in (self.pods, self.assumed, self.nominated):
            table.pop(uid, None)

    # -------------------------------------------------------------------------- decisions

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on a node from now on."""
        self.assumed[pod.uid] = replace(pod, node_name=node_name)
        self.nominated.pop(pod.uid, None)
        self._changed(pod.uid)

    def forget(self, uid: str) -> bool:
        """Take an assumption back; whether there was one."""
        self._changed(uid)
        return self.assumed.pop(uid, None) is not None

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Promise a node to a pod; an empty name takes the promise back."""
        self.nominated.pop(pod.uid, None)
        if node_name:
            self.nominated[pod.uid] = replace(pod, nominated_node=node_name)

    # ---------------------------------------------------------------------------- looking

    def rooms(self) -> Mapping[str, Room]:
        """Return every node with its pods, by name, in the order the nodes came."""
        missing = self.nodes.keys() - self._rooms.keys()
        if missing:
            placed: dict[str, list[PodInfo]] = {name: [] for name in missing}
            for pod in ({**self.pods, **self.assumed}).values():
                if pod.node_name in placed:
                    placed[pod.node_name].append(pod)
            self._rooms |= {name: room_of(self.nodes[name], held) for name, held in placed.items()}
        return {name: self._rooms[name] for name in self.nodes}

    def promised(self, node_name: str, to_whom: PodInfo) -> tuple[PodInfo, ...]:
        """Return the other pods to which a node is promised that `to_whom` must respect."""
        return tuple(
            pod
            for pod in self.nominated.values()
            if pod.nominated_node == node_name
            and pod.uid != to_whom.uid
            and pod.priority >= to_whom.priority
        )

    def _changed(self, uid: str) -> None:
        for table in (self.pods, self.assumed):
            if uid in table:
                self._rooms.pop(table[uid].node_name, None)
