"""The verb preempt: which victims really make room on one card, node by node.

Rule 1: kube-scheduler counts a node's units in all; a node on which its victims, or others
of lower priority, would not free enough where it counts is taken off the list.
Rule 2: nobody is evicted who need not go; the sets are `core/preemption`'s.
Rule 3: no node is answered that was not asked about, and none without a victim:
kube-scheduler takes that for an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.preemption import Victim, victims_on
from gpushare_plugin.errors import AskError
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVictims:
    """The pods of one node that would be evicted."""

    uids: tuple[str, ...]
    pdb_violations: int
    """How many of them a PodDisruptionBudget protects, as kube-scheduler counted."""


class Preempting:
    """Answers preempt from memory."""

    def __init__(self, cluster: Cluster, fits: Fits) -> None:
        self._cluster = cluster
        self._fits = fits

    def preempt(self, pod: Pod, given: Mapping[str, GivenVictims]) -> Mapping[str, GivenVictims]:
        """Return the nodes on which evicting helps, each with whom to evict."""
        try:
            ask = self._fits.ask_of(pod)
        except AskError:
            return {}
        if not ask.units:
            return given
        found = {}
        for node_name, victims in given.items():
            uids = self._uids(pod, ask, node_name, victims)
            if uids:
                found[node_name] = replace(victims, uids=uids)
        return found

    def _uids(self, pod: Pod, ask: Ask, node_name: str, given: GivenVictims) -> tuple[str, ...]:
        room = self._cluster.room(node_name, without=pod.uid)
        if room is None:
            return ()
        # One that is only assumed yet may be unknown to kube-scheduler, unless it names it.
        pods = [
            Victim(uid=each.uid, priority=each.priority, seats=seats)
            for each, seats in self._cluster.seats_on(node_name, without=pod.uid)
            if each.uid in given.uids or self._cluster.is_seen(each.uid)
        ]
        chosen = victims_on(room, ask, priority=pod.priority, pods=pods, given=given.uids)
        return _in_order(chosen or frozenset(), given.uids)


def _in_order(chosen: frozenset[str], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return those that were given in their order, then the others."""
    return (*(uid for uid in given if uid in chosen), *sorted(chosen.difference(given)))
