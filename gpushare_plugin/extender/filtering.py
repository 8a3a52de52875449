"""The verb filter: which of the nodes that were asked about can hold the pod, and why not.

Rule 1: every node of the request is in exactly one of the three parts of the answer, and
no other node is.
Rule 2: a pod that asks for nothing of ours passes everywhere.
Rule 3: an answer stands as long as nothing changed: the same object is returned, so that
who encodes it can keep the bytes with it.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import AskError
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits, unknown_node
from gpushare_plugin.extender.names import NameList
from gpushare_plugin.extender.roomy_nodes import Nodes, RoomyNodes

MOST_ANSWERS = 32
_NOT = bytes((1, 0)) + bytes(254)
"""As a table for `translate`: where a 0 stands a 1 will, and the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """The answer for one list of nodes."""

    fits: bytes
    """For each place in the list 1 where the pod fits, else 0."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Node name to reason, where pods that went could make room."""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """Node name to reason, where no eviction can help."""

    @property
    def fitting(self) -> tuple[int, ...]:
        """The places where the pod fits, in the list's order."""
        return tuple(compress(range(len(self.fits)), self.fits))

    @property
    def fits_somewhere(self) -> bool:
        """Whether there is such a place."""
        return 1 in self.fits


Stamp = tuple[object, ...]
"""Of what an answer was made; it stands as long as another one would have an equal stamp."""


class Filtering:
    """Answers filter from memory."""

    def __init__(self, cluster: Cluster, fits: Fits) -> None:
        self._cluster = cluster
        self._fits = fits
        self._roomy = RoomyNodes(cluster, fits)
        self._kept: OrderedDict[tuple[NameList, Ask], tuple[Stamp, Filtered]] = OrderedDict()

    def filter(self, pod: Pod, names: NameList) -> Filtered:
        """Return which nodes can hold the pod now."""
        try:
            ask = self._fits.ask_of(pod)
        except AskError as error:
            reasons = dict.fromkeys(names.names, str(error))
            return Filtered(fits=bytes(len(names)), unresolvable=reasons)
        if not ask.units:
            return Filtered(fits=b"\x01" * len(names))
        own = tuple(each.number for each in self._cluster.assumptions.of(pod.uid))
        if ask.is_plain and not own:
            nodes = self._roomy.of(ask)
            stamp: Stamp = (nodes, nodes.revision)
            return self._kept_or(names, ask, stamp, lambda: _from_known(nodes, names))
        stamp = (self._cluster.generation, own)
        return self._kept_or(names, ask, stamp, lambda: self._from_each(ask, names, pod.uid))

    def _kept_or(
        self, names: NameList, ask: Ask, stamp: Stamp, make: Callable[[], Filtered]
    ) -> Filtered:
        kept = self._kept.get((names, ask))
        if kept is not None and kept[0] == stamp:
            return kept[1]
        answer = make()
        self._kept[names, ask] = (stamp, answer)
        self._kept.move_to_end((names, ask))
        if len(self._kept) > MOST_ANSWERS:
            self._kept.popitem(last=False)
        return answer

    def _from_each(self, ask: Ask, names: NameList, uid: str) -> Filtered:
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        misfits = list(self._fits.misfits(names.names, ask, uid=uid))
        for name, misfit in zip(names.names, misfits, strict=True):
            if misfit is not None:
                part = failed if misfit.resolvable else unresolvable
                part[name] = misfit.reason
        fits = bytes(misfit is None for misfit in misfits)
        return Filtered(fits=fits, failed=failed, unresolvable=unresolvable)


def _from_known(nodes: Nodes, names: NameList) -> Filtered:
    """Answer for a plain ask of a pod of which nothing is assumed."""
    fits = bytes(map(nodes.roomy.__contains__, names.names))
    others = list(compress(names.names, fits.translate(_NOT)))
    failed = _those_of(nodes.failed, others)
    unresolvable = _those_of(nodes.unresolvable, others)
    if len(failed) + len(unresolvable) < len(others):
        for name in others:
            if name not in failed and name not in unresolvable:
                unresolvable[name] = unknown_node(name).reason
    return Filtered(fits=fits, failed=failed, unresolvable=unresolvable)


def _those_of(reasons: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: reasons[name] for name in names if name in reasons}
