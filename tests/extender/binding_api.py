"""The API server in the small, as binds see it: pods, watches that lag, and calls that go wrong.

What it holds to: a Binding is carried out whole or not at all, once at most, and no later
than `REQUEST_TIMEOUT_SECONDS` after it was sent. When its client dies, what it had under
way is carried out at once or never: the API server gives up the calls of a connection
that was closed.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from gpushare_plugin.core.pods import Pod, counts
from gpushare_plugin.errors import ApiConflict, ApiError, ApiNotFound, ApiRefused, ApiUnavailable
from gpushare_plugin.ports.cluster import Change, Gone, Upserted
from gpushare_plugin.ports.scheduling import Binding
from tests.extender.clusters import INDEX, UNITS

REQUEST_TIMEOUT_SECONDS = 60.0
AFTER_SECONDS = 1e-5
"""A loop keeps no order among what is due at the very same time."""


class Fault(Enum):
    """How a Binding goes wrong."""

    ANSWER_LOST = "carried out, and the answer is lost"
    LATE = "carried out after the client gave it up"
    BROKEN_LATE = "the connection breaks at once, and it is carried out later"
    HANGS = "nothing ever happens"
    AWAY = "503"
    CONFLICT = "409, for nothing"
    FORBIDDEN = "403"


_REFUSALS: dict[Fault | None, type[ApiError]] = {
    Fault.AWAY: ApiUnavailable,
    Fault.CONFLICT: ApiConflict,
    Fault.FORBIDDEN: ApiRefused,
}


class Watcher:
    """One extender's watch: all changes in order, later than they happen, until it breaks."""

    def __init__(self, api: "ApiModel", told: Callable[[Change[Pod]], None]) -> None:
        self._api = api
        self._told = told
        self._known: dict[str, Pod] = {}
        self._until = 0.0
        self._life = 0
        self._broken = True
        self.lag_seconds = 0.0

    def relist(self) -> None:
        """List all pods as they are now, in any order, the gone first; watch on from there."""
        self._life += 1
        self._broken = False
        self._until = 0.0
        for uid in [uid for uid in self._known if uid not in self._api.pods]:
            self._told(Gone(self._known.pop(uid)))
        for pod in self._api.draw.sample(list(self._api.pods.values()), len(self._api.pods)):
            if self._known.get(pod.uid) != pod:
                self._known[pod.uid] = pod
                self._told(Upserted(pod))

    def breaks(self) -> None:
        """Lose all that was not told yet; nothing comes until the next list."""
        self._life += 1
        self._broken = True

    def happened(self, change: Change[Pod]) -> None:
        if self._broken:
            return
        loop = asyncio.get_running_loop()
        self._until = max(self._until + AFTER_SECONDS, loop.time() + self.lag_seconds)
        loop.call_at(self._until, self._deliver, change, self._life)

    def _deliver(self, change: Change[Pod], life: int) -> None:
        if life != self._life:
            return
        match change:
            case Upserted(pod):
                self._known[pod.uid] = pod
            case Gone(pod):
                self._known.pop(pod.uid, None)
        self._told(change)


@dataclass
class ApiModel:
    """All pods of the cluster, and the cards that its nodes have."""

    draw: Random
    cards: Mapping[str, tuple[int, ...]]
    pods: dict[str, Pod] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    """What strikes the next Bindings, one each."""
    blind_gets: int = 0
    """How many of the next reads fail."""
    watchers: list[Watcher] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._tell(Upserted(pod))

    def remove(self, uid: str) -> None:
        self._tell(Gone(self.pods.pop(uid)))

    def used(self, node_name: str) -> tuple[int, ...]:
        """What is held of each card, by the pods' own annotations."""
        used = [0] * len(self.cards[node_name])
        for pod in self.pods.values():
            if pod.node_name == node_name and counts(pod):
                indices = [int(text) for text in pod.annotations[INDEX].split(",")]
                for index in indices:
                    used[index] += pod.containers[0].requests[UNITS] // len(indices)
        return tuple(used)

    def carry_out(self, binding: Binding) -> None:
        """Bind the pod, as the API server does; raises what it would answer."""
        pod = self.pods.get(binding.uid)
        if pod is None:
            names = {(each.namespace, each.name) for each in self.pods.values()}
            there = (binding.namespace, binding.name) in names
            raise (ApiConflict if there else ApiNotFound)(f"no pod {binding.uid}")
        if pod.node_name or pod.terminating:
            raise ApiConflict(f"pod {pod} is bound to {pod.node_name or 'nothing, and goes'}")
        annotations = {**pod.annotations, **binding.annotations}
        self.put(replace(pod, node_name=binding.node_name, annotations=annotations))
        used, units = self.used(binding.node_name), self.cards[binding.node_name]
        self.happened.append(f"bound {pod.uid} {binding.node_name} {annotations[INDEX]}")
        for index, each in enumerate(used):
            assert each <= units[index], f"card {index} of {binding.node_name}: {used} of {units}"

    def _tell(self, change: Change[Pod]) -> None:
        for watcher in self.watchers:
            watcher.happened(change)


class Connection:
    """What one extender has of the API server, until it dies."""

    def __init__(self, api: ApiModel) -> None:
        self._api = api
        self._under_way: dict[asyncio.TimerHandle, Binding] = {}
        self.failures: list[AssertionError] = []

    async def bind(self, binding: Binding, *, timeout_seconds: float) -> None:
        api = self._api
        fault = api.faults.pop(0) if api.faults else None
        if fault is not None:
            api.happened.append(f"{fault.name} {binding.uid} {binding.node_name}")
        await asyncio.sleep(api.draw.choice((0.001, 0.001, 0.2)))
        if fault in _REFUSALS:
            raise _REFUSALS[fault]("as was asked for")
        if fault in (Fault.LATE, Fault.BROKEN_LATE):
            self._later(binding)
        if fault in (Fault.LATE, Fault.HANGS):
            await asyncio.sleep(timeout_seconds - 0.2)
        if fault in (Fault.LATE, Fault.HANGS, Fault.BROKEN_LATE):
            raise ApiUnavailable("no answer, on request")
        self._now(binding)
        if fault is Fault.ANSWER_LOST:
            raise ApiUnavailable("the answer was lost, on request")
        await asyncio.sleep(0.001)

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        await asyncio.sleep(0.001)
        if self._api.blind_gets:
            self._api.blind_gets -= 1
            await asyncio.sleep(self._api.draw.choice((0.0, timeout_seconds)))
            raise ApiUnavailable("no answer, on request")
        for pod in self._api.pods.values():
            if (pod.namespace, pod.name) == (namespace, name):
                await asyncio.sleep(0.001)
                return pod
        raise ApiNotFound(f"no pod {name}")

    def close(self) -> None:
        """The extender died: what was under way is carried out at once, or never."""
        for handle, binding in list(self._under_way.items()):
            handle.cancel()
            if self._api.draw.random() < 0.5:
                self._carried_out_late(binding)
        self._under_way.clear()

    def _later(self, binding: Binding) -> None:
        delay_seconds = self._api.draw.choice((0.05, 1.0, 3.0, 20.0, REQUEST_TIMEOUT_SECONDS - 1))
        loop = asyncio.get_running_loop()
        handle = loop.call_later(delay_seconds, self._due, binding)
        self._under_way[handle] = binding

    def _due(self, binding: Binding) -> None:
        self._under_way = {key: each for key, each in self._under_way.items() if each != binding}
        self._carried_out_late(binding)

    def _carried_out_late(self, binding: Binding) -> None:
        try:
            self._now(binding)
        except ApiError:
            self._api.happened.append(f"late and refused {binding.uid}")

    def _now(self, binding: Binding) -> None:
        try:
            self._api.carry_out(binding)
        except AssertionError as error:
            self.failures.append(error)
            raise
