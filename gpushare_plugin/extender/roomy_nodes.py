"""Of plain asks: the nodes with room, and the reasons of all others, kept up with the cluster.

Rule 1: only the nodes that changed are looked at again; for an ask that was not asked
before, or not for too long, all are gone through once.
Rule 2: nothing that is assumed of a pod is left out here: who asks for such a pod looks at
those nodes itself.
"""

from collections import OrderedDict
from collections.abc import Iterable

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.fitting import Misfit
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits

MOST_ASKS = 16
"""Of 5,000 nodes one takes half a MiB, and the reasons."""


class Nodes:
    """All nodes, each in one of three parts.

    Attributes:
        generation: the cluster's, when they were looked at last.
        revision: grows when a node goes to another part or has another reason.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.revision = 0
        self.roomy: set[str] = set()
        self.failed: dict[str, str] = {}
        """Node name to reason, where pods that went could make room."""
        self.unresolvable: dict[str, str] = {}
        """Node name to reason, where no eviction can help."""

    def forget(self, name: str) -> None:
        """Take a node out; there is none of that name."""
        if name in self.roomy or name in self.failed or name in self.unresolvable:
            self._take_out(name)

    def has_room(self, name: str) -> None:
        """Put a node among those with room."""
        if name not in self.roomy:
            self._take_out(name)
            self.roomy.add(name)

    def has_none(self, name: str, misfit: Misfit) -> None:
        """Put a node among those without, with the reason."""
        part = self.failed if misfit.resolvable else self.unresolvable
        if part.get(name) != misfit.reason:
            self._take_out(name)
            part[name] = misfit.reason

    def _take_out(self, name: str) -> None:
        self.revision += 1
        self.roomy.discard(name)
        self.failed.pop(name, None)
        self.unresolvable.pop(name, None)


class RoomyNodes:
    """What is known for each of the asks that came last."""

    def __init__(self, cluster: Cluster, fits: Fits) -> None:
        self._cluster = cluster
        self._fits = fits
        self._known: OrderedDict[Ask, Nodes] = OrderedDict()

    def of(self, ask: Ask) -> Nodes:
        """Return the nodes as of now; `ask` is a plain one."""
        generation = self._cluster.generation
        known = self._known.get(ask)
        if known is not None and known.generation == generation:
            return known
        changed = self._cluster.changed_since(known.generation) if known else None
        if known is None or changed is None:
            known, changed = Nodes(generation), set(self._cluster.node_names)
            self._keep(ask, known)
        self._place(changed, known, ask)
        known.generation = generation
        return known

    def _place(self, node_names: Iterable[str], nodes: Nodes, ask: Ask) -> None:
        largest_free, rooms = self._cluster.largest_free(), self._cluster.rooms()
        for name in node_names:
            room = rooms.get(name)
            if room is None:
                nodes.forget(name)
                continue
            # Of a plain ask this number alone decides; `fit` takes ten times as long.
            has_room = largest_free[name] >= ask.units_per_card
            outcome = () if has_room else self._fits.in_room(room, ask)
            if isinstance(outcome, Misfit):
                nodes.has_none(name, outcome)
            else:
                nodes.has_room(name)

    def _keep(self, ask: Ask, nodes: Nodes) -> None:
        self._known[ask] = nodes
        self._known.move_to_end(ask)
        if len(self._known) > MOST_ASKS:
            self._known.popitem(last=False)
