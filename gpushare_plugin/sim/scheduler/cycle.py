"""One scheduling cycle: from a pod to the node it shall go to.

Facts: schedule_one.go of 1.36. A promised node is tried alone first. Own filters stop once
enough nodes fit (100, or a share of a large cluster) and the next cycle goes on where this one
stopped, so the order of the names differs from call to call. Extenders filter one after the
other, and score side by side; a score they cannot give is left out. Ties are random.
"""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpushare_plugin.sim.scheduler.cluster import Cluster, Room
from gpushare_plugin.sim.scheduler.configuration import Configuration
from gpushare_plugin.sim.scheduler.diagnosis import Diagnosis, NoNodesError, UnfitError
from gpushare_plugin.sim.scheduler.extender_client import HttpExtender
from gpushare_plugin.sim.scheduler.extender_wire import ExtenderError
from gpushare_plugin.sim.scheduler.filters import EXTENDER, Refusal, refusal
from gpushare_plugin.sim.scheduler.objects import PodInfo
from gpushare_plugin.sim.scheduler.scoring import MAX_EXTENDER_SCORE, MAX_NODE_SCORE, own_score

_ENOUGH_NODES = 100
_LEAST_PERCENTAGE = 5
_EXTENDER_SCALE = MAX_NODE_SCORE // MAX_EXTENDER_SCORE

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The node that was chosen."""

    node_name: str
    scores: Mapping[str, int] = field(default_factory=dict)
    """Empty where only one node was left."""


class SchedulingCycle:
    """Finds a node for one pod at a time; changes nothing."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: Configuration,
        extenders: Sequence[HttpExtender],
        *,
        chance: random.Random,
    ) -> None:
        self.cluster = cluster
        self._configuration = configuration
        self.extenders = extenders
        self._chance = chance
        self._start = 0

    async def place(self, pod: PodInfo) -> Placement:
        """Return where the pod goes.

        Raises UnfitError, NoNodesError, or ExtenderError from a filter that may not be skipped.
        """
        rooms = self.cluster.rooms()
        if not rooms:
            raise NoNodesError
        fitting = await self._promised(pod, rooms) or await self._fitting(pod, rooms)
        if len(fitting) == 1:
            return Placement(node_name=fitting[0])
        scores = await self._scores(pod, [rooms[name] for name in fitting])
        # One random number a node, as there, and not one choice among the best.
        best = max(fitting, key=lambda name: (scores[name], self._chance.random()))
        return Placement(node_name=best, scores=scores)

    def left_out(self, pod: PodInfo) -> frozenset[str]:
        """Return the resources that an extender alone looks after."""
        sets = (each.settings.left_to_it for each in self.extenders if each.interested(pod))
        return frozenset[str]().union(*sets)

    def own_refusal(self, pod: PodInfo, room: Room) -> Refusal | None:
        """Return what the own filters say of a node."""
        promised = self.cluster.promised(room.node.name, pod)
        return refusal(pod, room, left_out=self.left_out(pod), promised=promised)

    # ------------------------------------------------------------------------- filters

    async def _promised(self, pod: PodInfo, rooms: Mapping[str, Room]) -> tuple[str, ...]:
        promise = self.cluster.nominated.get(pod.uid, pod).nominated_node
        if promise not in rooms or self.own_refusal(pod, rooms[promise]) is not None:
            return ()
        try:
            return await self._past_extenders(pod, (promise,), rooms, {})
        except ExtenderError as error:
            _log.warning("%s on its promised node %s: %s", pod.key, promise, error)
            return ()

    async def _fitting(self, pod: PodInfo, rooms: Mapping[str, Room]) -> tuple[str, ...]:
        refusals: dict[str, Refusal] = {}
        own = self._past_filters(pod, rooms, refusals)
        fitting = await self._past_extenders(pod, own, rooms, refusals)
        if not fitting:
            by_extender = bool(own)
            raise UnfitError(
                Diagnosis(nodes=len(rooms), refusals=refusals, by_extender=by_extender)
            )
        return fitting

    def _past_filters(
        self, pod: PodInfo, rooms: Mapping[str, Room], refusals: dict[str, Refusal]
    ) -> tuple[str, ...]:
        names = list(rooms)
        start, enough = self._start % len(names), self._enough(len(names))
        fitting: list[str] = []
        for name in names[start:] + names[:start]:
            found = self.own_refusal(pod, rooms[name])
            if found is not None:
                refusals[name] = found
                continue
            fitting.append(name)
            if len(fitting) == enough:
                break
        self._start = (start + len(fitting) + len(refusals)) % len(names)
        return tuple(fitting)

    def _enough(self, nodes: int) -> int:
        if nodes < _ENOUGH_NODES:
            return nodes
        percentage = self._configuration.percentage_of_nodes_to_score
        percentage = percentage or max(_LEAST_PERCENTAGE, 50 - nodes // 125)
        return max(_ENOUGH_NODES, nodes * percentage // 100)

    async def _past_extenders(
        self,
        pod: PodInfo,
        names: tuple[str, ...],
        rooms: Mapping[str, Room],
        refusals: dict[str, Refusal],
    ) -> tuple[str, ...]:
        for extender in self.extenders:
            if not names:
                break
            if not extender.interested(pod):
                continue
            try:
                answer = await extender.filter(pod, [rooms[name].node for name in names])
            except ExtenderError as error:
                if not extender.settings.ignorable:
                    raise
                _log.info("skipped: %s", error)
                continue
            refusals |= _by_extender(answer.failed, resolvable=True)
            refusals |= _by_extender(answer.unresolvable, resolvable=False)
            names = answer.fitting
        return names

    # -------------------------------------------------------------------------- scores

    async def _scores(self, pod: PodInfo, rooms: Sequence[Room]) -> dict[str, int]:
        weights = self._configuration.score_weights
        most = self._configuration.most_allocated
        scores = {
            room.node.name: own_score(pod, room, weights=weights, most_allocated=most)
            for room in rooms
        }
        scoring = [e for e in self.extenders if e.settings.prioritize_verb and e.interested(pod)]
        for more in await asyncio.gather(*(_weighted(each, pod, rooms) for each in scoring)):
            for name in scores:
                scores[name] += more.get(name, 0)
        return scores


async def _weighted(
    extender: HttpExtender, pod: PodInfo, rooms: Sequence[Room]
) -> Mapping[str, int]:
    try:
        scores = await extender.prioritize(pod, [room.node for room in rooms])
    except ExtenderError as error:
        _log.info("no score: %s", error)
        return {}
    scale = extender.settings.weight * _EXTENDER_SCALE
    return {name: score * scale for name, score in scores.items()}


def _by_extender(reasons: Mapping[str, str], *, resolvable: bool) -> dict[str, Refusal]:
    return {
        name: Refusal(reasons=(reason,), plugin=EXTENDER, resolvable=resolvable)
        for name, reason in reasons.items()
    }
