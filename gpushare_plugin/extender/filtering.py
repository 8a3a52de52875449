"""The verb filter: which of the nodes that were asked about can hold the pod, and why not.

Rule 1: every node of the request is in exactly one of the three parts of the answer, and
no other node is.
Rule 2: a pod that asks for nothing of ours passes everywhere.
Rule 3: an answer stands as long as nothing changed: the same object is returned, so that
who encodes it can keep the bytes with it.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import AskError
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.columns import Columns
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.names import NameList

MOST_ANSWERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """The answer for one list of nodes."""

    fitting: tuple[int, ...]
    """Places in the list, in its order."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Node name to reason, where pods that went could make room."""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """Node name to reason, where no eviction can help."""


@dataclass(frozen=True, slots=True)
class _Kept:
    generation: int
    own: tuple[int, ...]
    answer: Filtered


class Filtering:
    """Answers filter from memory."""

    def __init__(self, cluster: Cluster, fits: Fits) -> None:
        self._cluster = cluster
        self._fits = fits
        self._columns = Columns(cluster)
        self._kept: OrderedDict[tuple[NameList, Ask], _Kept] = OrderedDict()

    def filter(self, pod: Pod, names: NameList) -> Filtered:
        """Return which nodes can hold the pod now."""
        try:
            ask = self._fits.ask_of(pod)
        except AskError as error:
            return Filtered(fitting=(), unresolvable=dict.fromkeys(names.names, str(error)))
        generation = self._cluster.generation
        own = tuple(each.number for each in self._cluster.assumptions.of(pod.uid))
        kept = self._kept.get((names, ask))
        if kept is not None and kept.generation == generation and kept.own == own:
            return kept.answer
        answer = self._answer(ask, names, pod.uid)
        self._keep(names, ask, _Kept(generation, own, answer))
        return answer

    def _answer(self, ask: Ask, names: NameList, uid: str) -> Filtered:
        fits = bytearray(b"\x01") * len(names)
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        if ask.units:
            unsure = self._unsure(ask, names)
            nodes = [names.names[place] for place in unsure]
            for place, misfit in zip(unsure, self._fits.misfits(nodes, ask, uid=uid), strict=True):
                if misfit is not None:
                    fits[place] = False
                    part = failed if misfit.resolvable else unresolvable
                    part[names.names[place]] = misfit.reason
        fitting = tuple(compress(range(len(names)), fits))
        return Filtered(fitting=fitting, failed=failed, unresolvable=unresolvable)

    def _unsure(self, ask: Ask, names: NameList) -> Sequence[int]:
        """Return the places of nodes that must be looked at.

        Of a plain ask the column tells where there is room; what is assumed of the pod itself
        can only hide some.
        """
        if not ask.is_plain:
            return range(len(names))
        units = ask.units_per_card
        return [place for place, free in enumerate(self._columns.of(names)) if free < units]

    def _keep(self, names: NameList, ask: Ask, kept: _Kept) -> None:
        self._kept[names, ask] = kept
        self._kept.move_to_end((names, ask))
        if len(self._kept) > MOST_ANSWERS:
            self._kept.popitem(last=False)
