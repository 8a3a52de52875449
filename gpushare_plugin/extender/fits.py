"""On which cards of which node a pod would go: worked out once for all verbs.

Rule 1: filter, prioritize and bind ask here, so the card that is bound is the one by
which the node was found fit and ranked.
Rule 2: an outcome stands as long as the node's room is the very same object, and is kept as
long as there is a node of that name: they come and go under ever new ones.
Rule 3: a pod is never in its own way: what is assumed of it does not count against it.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from gpushare_plugin.core.asks import Ask, ask_of
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.fitting import Misfit, fit
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.room import CardRoom, NodeRoom
from gpushare_plugin.extender.cluster import Cluster

MOST_ASKS = 64

Outcome = tuple[CardRoom, ...] | Misfit


class Fits:
    """Says of any node whether a pod fits there, on which cards, or why not."""

    def __init__(self, cluster: Cluster, names: Dialect, default_policy: Policy) -> None:
        self._cluster = cluster
        self._names = names
        self._default_policy = default_policy
        self._known: OrderedDict[Ask, dict[str, tuple[NodeRoom, Outcome]]] = OrderedDict()
        cluster.on_change(self._forget_if_gone)

    def ask_of(self, pod: Pod) -> Ask:
        """Return what the pod asks for; raises AskError."""
        return ask_of(pod, self._names, self._default_policy)

    def outcome(self, node_name: str, ask: Ask, *, uid: str) -> Outcome:
        """Return where the pod of that UID goes on a node, as of now, or why nowhere."""
        room = self._cluster.room(node_name, without=uid)
        return unknown_node(node_name) if room is None else self.in_room(room, ask)

    def misfits(self, node_names: Sequence[str], ask: Ask, *, uid: str) -> Iterator[Misfit | None]:
        """Yield for each node why the pod of that UID does not go there; None where it does."""
        rooms = self._cluster.rooms()
        own = self._cluster.assumed_on(uid)
        known = self._outcomes(ask)
        for node_name in node_names:
            room, kept = rooms.get(node_name), known.get(node_name)
            if kept is not None and kept[0] is room and node_name not in own:
                found = kept[1]
            else:
                found = self.outcome(node_name, ask, uid=uid)
            yield found if isinstance(found, Misfit) else None

    def in_room(self, room: NodeRoom, ask: Ask) -> Outcome:
        """Return where such a pod goes in this room, or why nowhere."""
        outcomes = self._outcomes(ask)
        known = outcomes.get(room.node.name)
        if known is not None and known[0] is room:
            return known[1]
        found = fit(room, ask)
        outcomes[room.node.name] = (room, found)
        return found

    def _forget_if_gone(self, node_name: str) -> None:
        if node_name in self._cluster.node_names:
            return
        for outcomes in self._known.values():
            outcomes.pop(node_name, None)

    def _outcomes(self, ask: Ask) -> dict[str, tuple[NodeRoom, Outcome]]:
        outcomes = self._known.get(ask)
        if outcomes is None:
            outcomes = self._known[ask] = {}
            if len(self._known) > MOST_ASKS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(ask)
        return outcomes


def unknown_node(node_name: str) -> Misfit:
    """Return why nothing goes to a node that there is not."""
    reason = f"{node_name}: the API server has told of no such node (yet)"
    return Misfit(reason=reason, resolvable=False)
