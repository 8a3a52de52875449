"""Preemption for one pod: find victims, ask the extenders, delete, promise the node.

Facts: pkg/scheduler/framework/preemption of 1.36, with the victims deleted before the cycle
ends, as where asynchronous preemption is off.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.scheduler.api_client import NOT_FOUND, ApiClient, ApiError
from gpushare_plugin.sim.scheduler.cluster import Room
from gpushare_plugin.sim.scheduler.cycle import SchedulingCycle
from gpushare_plugin.sim.scheduler.diagnosis import (
    NOT_HELPFUL,
    Diagnosis,
    nodes_message,
    preemption_message,
)
from gpushare_plugin.sim.scheduler.extender_client import HttpExtender
from gpushare_plugin.sim.scheduler.extender_wire import ExtenderError, NamedVictims, Victims
from gpushare_plugin.sim.scheduler.filters import Refusal
from gpushare_plugin.sim.scheduler.objects import PodInfo
from gpushare_plugin.sim.scheduler.preemption import (
    BY_PREEMPTION,
    best_node,
    ineligible,
    victims_on,
)
from gpushare_plugin.sim.scheduler.reporting import Reporter, condition

_ENOUGH_CANDIDATES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """What came of it."""

    message: str = ""
    """Why not, as it is added to the event; empty: the victims are on their way out."""
    promise: str | None = None
    """The node that is promised now; empty: none any more; None: as before."""
    victims: tuple[PodInfo, ...] = ()


class _BrokenError(Exception):
    """Preemption met an error; the text is the plugin's."""


class Preempting:
    """Makes room for pods."""

    def __init__(
        self,
        cycle: SchedulingCycle,
        api: ApiClient,
        reporter: Reporter,
        *,
        chance: random.Random,
        preempt_without_victims: bool,
    ) -> None:
        self._cycle = cycle
        self._api = api
        self._reporter = reporter
        self._chance = chance
        self._without_victims = preempt_without_victims

    async def attempt(self, pod: PodInfo, diagnosis: Diagnosis) -> Preempted:
        """Try to make room for a pod that fits nowhere; never raises for what others do."""
        pod = self._cycle.cluster.pods.get(pod.uid, pod)
        rooms = self._cycle.cluster.rooms()
        promise = self._cycle.cluster.nominated.get(pod.uid, pod).nominated_node
        if why := ineligible(pod, rooms.get(promise), diagnosis.refusals.get(promise)):
            return Preempted(message=preemption_message(why))
        try:
            candidates, refusals = self._candidates(pod, rooms, diagnosis)
            if not candidates:
                text = nodes_message(len(rooms), refusals, absent=NOT_HELPFUL)
                return Preempted(message=preemption_message(text), promise="")
            left = await self._past_extenders(pod, candidates, rooms)
            if not left:
                text = preemption_message("no candidate node for preemption")
                return Preempted(message=text)
            node_name = best_node(left)
            await self._evict(pod, node_name, left[node_name])
        except (_BrokenError, ExtenderError, ApiError) as error:
            return Preempted(message=f"preemption: {error}")
        return Preempted(promise=node_name, victims=left[node_name].pods)

    # ----------------------------------------------------------------------- candidates

    def _candidates(
        self, pod: PodInfo, rooms: Mapping[str, Room], diagnosis: Diagnosis
    ) -> tuple[dict[str, Victims], dict[str, Refusal]]:
        names = [name for name, each in diagnosis.refusals.items() if each.resolvable]
        offset = self._chance.randrange(len(names)) if names else 0
        candidates: dict[str, Victims] = {}
        refusals: dict[str, Refusal] = {}
        broken: list[str] = []
        for name in names[offset:] + names[:offset]:
            if name not in rooms:
                continue
            found = victims_on(pod, rooms[name], lambda room: self._cycle.own_refusal(pod, room))
            if isinstance(found, Refusal):
                refusals[name] = found
            elif found.pods or self._offers_empty(pod):
                candidates[name] = found
            else:
                broken.append(f'expected at least one victim pod on node "{name}"')
            if len(candidates) >= max(_ENOUGH_CANDIDATES, len(names) // 10):
                break
        if broken and not candidates:
            raise _BrokenError(broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]")
        return candidates, refusals

    def _offers_empty(self, pod: PodInfo) -> bool:
        return self._without_victims and any(
            self._asked(each, pod) for each in self._cycle.extenders
        )

    # ------------------------------------------------------------------------ extenders

    @staticmethod
    def _asked(extender: HttpExtender, pod: PodInfo) -> bool:
        return bool(extender.settings.preempt_verb) and extender.interested(pod)

    async def _past_extenders(
        self, pod: PodInfo, candidates: dict[str, Victims], rooms: Mapping[str, Room]
    ) -> dict[str, Victims]:
        for extender in self._cycle.extenders:
            if not candidates or not self._asked(extender, pod):
                continue
            empty = frozenset(name for name, each in candidates.items() if not each.pods)
            try:
                answer = await extender.preempt(pod, candidates)
                found = _with_pods(answer, rooms, extender.settings.url_prefix)
            except ExtenderError:
                if extender.settings.ignorable:
                    continue
                raise
            candidates = _checked(found, empty, ignorable=extender.settings.ignorable)
        return {name: each for name, each in candidates.items() if each.pods}

    # ------------------------------------------------------------------------- eviction

    async def _evict(self, pod: PodInfo, node_name: str, victims: Victims) -> None:
        for victim in victims.pods:
            if not victim.terminating:
                await self._delete(victim, pod, node_name)
        for other in tuple(self._cycle.cluster.nominated.values()):
            if other.nominated_node == node_name and other.priority < pod.priority:
                self._cycle.cluster.nominate(other, "")
                self._reporter.promised(other, "")

    async def _delete(self, victim: PodInfo, pod: PodInfo, node_name: str) -> None:
        text = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
        wanted = condition("DisruptionTarget", "True", BY_PREEMPTION, text)
        try:
            await self._api.patch_pod_status(victim, {"conditions": [wanted]})
            await self._api.delete_pod(victim)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return
        self._reporter.preempted(victim, pod, node_name)


def _with_pods(
    answer: Mapping[str, NamedVictims], rooms: Mapping[str, Room], url: str
) -> dict[str, Victims]:
    found = {}
    for name, named in answer.items():
        if name not in rooms:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        held = {pod.uid: pod for pod in rooms[name].pods}
        for uid in named.uids:
            if uid not in held:
                raise ExtenderError(
                    f"extender: {url} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, "
                    "but the pod is not found on that node"
                )
        pods = tuple(held[uid] for uid in named.uids)
        found[name] = Victims(pods=pods, disruptions=named.disruptions)
    return found


def _checked(
    found: Mapping[str, Victims], empty: frozenset[str], *, ignorable: bool
) -> dict[str, Victims]:
    """Return what an extender left; a node that came without victims may stay so."""
    for name, victims in found.items():
        if not (victims.pods or name in empty or ignorable):
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
    return {name: each for name, each in found.items() if each.pods or name in empty}
