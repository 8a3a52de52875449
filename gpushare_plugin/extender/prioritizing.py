"""The verb prioritize: how good each node is for the pod, from 0 to 10.

Rule: ranked by the very cards that bind would choose (`fits`), so node and card agree.
A node on which the pod does not fit (any more) has 0.
"""

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.fitting import Misfit
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.room import CardRoom, NodeRoom
from gpushare_plugin.core.scoring import scores
from gpushare_plugin.errors import AskError
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.names import NameList

WORST = 0


class Prioritizing:
    """Answers prioritize from memory."""

    def __init__(self, cluster: Cluster, fits: Fits) -> None:
        self._cluster = cluster
        self._fits = fits

    def prioritize(self, pod: Pod, names: NameList) -> tuple[tuple[str, int], ...]:
        """Return each node of the list with its score."""
        try:
            ask = self._fits.ask_of(pod)
        except AskError:
            return tuple((name, WORST) for name in names.names)
        found = scores(self._fitting(ask, names, pod.uid), ask)
        return tuple((name, found.get(name, WORST)) for name in names.names)

    def _fitting(
        self, ask: Ask, names: NameList, uid: str
    ) -> dict[str, tuple[NodeRoom, tuple[CardRoom, ...]]]:
        fitting = {}
        for name in names.names if ask.units else ():
            room = self._cluster.room(name, without=uid)
            outcome = self._fits.in_room(room, ask) if room is not None else None
            if room is not None and outcome is not None and not isinstance(outcome, Misfit):
                fitting[name] = (room, outcome)
        return fitting
