"""Where pods wait: active, backing off, unschedulable; and what is in flight.

Facts: pkg/scheduler/backend/queue of 1.36. Highest priority first, then the longest waiting.
A refused pod waits until something that its rejectors care for happens, then for its back-off;
what happens while its cycle runs counts too. A pod that came back with an error backs off in
any case. Back-off doubles from 1 s to 10 s, counted from the last attempt.
Rule: knows no cluster and no extender; the clock is given.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from gpushare_plugin.sim.scheduler.happenings import Happening, worth_a_try
from gpushare_plugin.sim.scheduler.objects import PodInfo


@dataclass(slots=True, kw_only=True)
class QueuedPod:
    """One pod in the queue; the same object for all its life there."""

    pod: PodInfo
    since: float
    """When it came, or came back from its last attempt, on the clock."""
    attempts: int = 0
    refusals: int = 0
    errors: int = 0
    """In a row."""
    rejectors: frozenset[str] = frozenset()
    ready_at: float = 0.0
    """When its back-off is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """What differs between schedulers."""

    initial_backoff_seconds: float
    max_backoff_seconds: float
    unschedulable_seconds: float
    pop_from_backoff: bool
    requeue_on_delete: bool


class SchedulingQueue:
    """The three places, by UID."""

    def __init__(
        self, rules: QueueRules, *, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self.active: dict[str, QueuedPod] = {}
        self.backing_off: dict[str, QueuedPod] = {}
        self.unschedulable: dict[str, QueuedPod] = {}
        self.in_flight: dict[str, list[Happening]] = {}
        """What happened since a pod was popped."""
        self._rules = rules
        self._clock = clock
        self._told = changed
        self._wake = asyncio.Event()
        self._open = False

    def set_open(self, is_open: bool) -> None:  # noqa: FBT001 - the whole of what is said
        """Give pods away, or keep them all; closed at first."""
        self._open = is_open
        self._changed()

    # ------------------------------------------------------------------------- pods come

    def add(self, pod: PodInfo) -> None:
        """Take in a pod that is new, or not here any more."""
        self.active[pod.uid] = QueuedPod(pod=pod, since=self._clock())
        self._changed()

    def update(self, pod: PodInfo, happenings: Iterable[Happening]) -> None:
        """Take over a changed pod, wherever it is; one that is nowhere comes in anew."""
        if pod.uid in self.in_flight:
            self.in_flight[pod.uid].extend(happenings)
            return
        for place in (self.active, self.backing_off, self.unschedulable):
            if (queued := place.get(pod.uid)) is not None:
                queued.pod = pod
                if place is self.unschedulable:
                    self._wake_up([queued], happenings)
                return
        self.add(pod)

    def remove(self, uid: str) -> None:
        """Take out a pod that is bound or gone."""
        for place in (self.active, self.backing_off, self.unschedulable):
            place.pop(uid, None)
        self._changed()

    # ---------------------------------------------------------------------- and go round

    async def pop(self) -> QueuedPod:
        """Return the next pod, in flight from now on; wait for one."""
        while True:
            self._flush()
            if self._open and (queued := self._next()) is not None:
                queued.attempts += 1
                self.in_flight[queued.pod.uid] = []
                self._changed()
                return queued
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_next()):
                    await self._wake.wait()

    def done(self, uid: str) -> None:
        """A popped pod needs no more events; it does not come back, or only with an error."""
        self.in_flight.pop(uid, None)
        self._changed()

    def refused(self, queued: QueuedPod, rejectors: frozenset[str]) -> None:
        """Take back a pod that fits nowhere; rejectors empty: an error, to be tried again."""
        seen = self.in_flight.pop(queued.pod.uid, [])
        queued.since, queued.rejectors = self._clock(), rejectors
        if rejectors:
            queued.refusals, queued.errors = queued.refusals + 1, 0
        else:
            queued.errors += 1
        queued.ready_at = queued.since + self._backoff_seconds(queued)
        self.unschedulable[queued.pod.uid] = queued
        if not rejectors or self._worth_a_try(queued, seen):
            self._retry(queued)
        self._changed()

    def happened(self, happening: Happening) -> None:
        """Bring back whom this may help."""
        for seen in self.in_flight.values():
            seen.append(happening)
        self._wake_up(tuple(self.unschedulable.values()), (happening,))

    # ------------------------------------------------------------------------------ inside

    def _wake_up(self, pods: Iterable[QueuedPod], happenings: Iterable[Happening]) -> None:
        seen = tuple(happenings)
        for queued in pods:
            if self._worth_a_try(queued, seen):
                self._retry(queued)
        self._changed()

    def _worth_a_try(self, queued: QueuedPod, seen: Iterable[Happening]) -> bool:
        on_delete = self._rules.requeue_on_delete
        return any(
            worth_a_try(queued.rejectors, each, requeue_on_delete=on_delete) for each in seen
        )

    def _retry(self, queued: QueuedPod) -> None:
        del self.unschedulable[queued.pod.uid]
        waits = queued.ready_at > self._clock()
        (self.backing_off if waits else self.active)[queued.pod.uid] = queued

    def _backoff_seconds(self, queued: QueuedPod) -> float:
        times = queued.errors or queued.refusals
        doubled = self._rules.initial_backoff_seconds * 2.0 ** min(times - 1, 30)
        return min(doubled, self._rules.max_backoff_seconds)

    def _flush(self) -> None:
        now = self._clock()
        for uid, queued in tuple(self.backing_off.items()):
            if queued.ready_at <= now:
                self.active[uid] = self.backing_off.pop(uid)
        for queued in tuple(self.unschedulable.values()):
            if queued.since + self._rules.unschedulable_seconds <= now:
                self._retry(queued)

    def _next(self) -> QueuedPod | None:
        if self.active:
            first = min(self.active.values(), key=lambda each: (-each.pod.priority, each.since))
            return self.active.pop(first.pod.uid)
        refused = [each for each in self.backing_off.values() if each.rejectors]
        if self._rules.pop_from_backoff and refused:
            return self.backing_off.pop(min(refused, key=lambda each: each.ready_at).pod.uid)
        return None

    def _seconds_to_next(self) -> float | None:
        moments = [each.ready_at for each in self.backing_off.values()]
        limit = self._rules.unschedulable_seconds
        moments += [each.since + limit for each in self.unschedulable.values()]
        return max(0.0, min(moments) - self._clock()) if moments else None

    def _changed(self) -> None:
        self._wake.set()
        self._told()
