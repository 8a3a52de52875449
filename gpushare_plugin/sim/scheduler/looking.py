"""Looking at a simulated scheduler, and waiting for what is to be seen.

Rule: what is returned is the caller's to keep; waiting never polls.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.scheduler.attempts import Attempts, Parts
from gpushare_plugin.sim.scheduler.objects import PodInfo
from gpushare_plugin.sim.scheduler.scheduling_queue import QueuedPod
from gpushare_plugin.sim.scheduler.settings import SchedulerSettings
from gpushare_plugin.sim.scheduler.states import (
    ExtenderCall,
    Outcome,
    QueuedPodState,
    SchedulerState,
)


@dataclass(slots=True)
class Standing:
    """What decides whether it schedules."""

    synced: bool = False
    leads: bool = False
    paused: bool = False


class Looking:
    """The half of a scheduler's verbs that change nothing."""

    def __init__(
        self, settings: SchedulerSettings, parts: Parts, attempts: Attempts, standing: Standing
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._attempts = attempts
        self._standing = standing

    @property
    def settings(self) -> SchedulerSettings:
        """What it was made with."""
        return self._settings

    def state(self) -> SchedulerState:
        """Return everything there is to see but the calls, at this moment."""
        parts, journal, queue = self._parts, self._parts.journal, self._parts.queue
        return SchedulerState(
            version=journal.version,
            identity=self._settings.identity,
            synced=self._standing.synced,
            leads=self._standing.leads,
            paused=self._standing.paused,
            nodes=len(parts.cluster.nodes),
            pods=len(parts.cluster.pods),
            active=_queued(queue.active.values()),
            backing_off=_queued(queue.backing_off.values()),
            unschedulable=_queued(queue.unschedulable.values()),
            scheduling=self._attempts.scheduling,
            binding=tuple(self._attempts.binding.values()),
            assumed={pod.key: pod.node_name for pod in parts.cluster.assumed.values()},
            nominated={pod.key: pod.nominated_node for pod in parts.cluster.nominated.values()},
            counts=dict(journal.counts),
            calls=journal.last_number,
            outcomes=dict(journal.outcomes),
        )

    def calls(self, *, after: int = 0) -> tuple[ExtenderCall, ...]:
        """Return the calls of extenders with a number above `after`, oldest first."""
        return tuple(call for call in self._parts.journal.calls if call.number > after)

    # ------------------------------------------------------------------------- waiting

    async def until(
        self,
        holds: Callable[[], bool],
        *,
        failure: Callable[[], str],
        timeout_seconds: float = 5.0,
    ) -> None:
        """Wait until `holds` does, asked again after every change; in process only."""
        await self._parts.journal.until(holds, failure=failure, timeout_seconds=timeout_seconds)

    async def newer_state(self, than: int, *, timeout_seconds: float = 5.0) -> SchedulerState:
        """Return the state once its version is above `than`."""
        await self.until(
            lambda: self._parts.journal.version > than,
            failure=lambda: f"nothing changed since version {than}",
            timeout_seconds=timeout_seconds,
        )
        return self.state()

    async def leading(self, *, timeout_seconds: float = 5.0) -> SchedulerState:
        """Wait until it knows the cluster and may schedule; paused or not."""
        await self.until(
            lambda: self._standing.synced and self._standing.leads,
            failure=lambda: f"it is not ready: {self._standing}",
            timeout_seconds=timeout_seconds,
        )
        return self.state()

    async def idle(
        self, *, known: tuple[str, ...] = (), timeout_seconds: float = 5.0
    ) -> SchedulerState:
        """Wait until nothing is to be done and all is told; pods that fit nowhere may wait.

        `known` are pods, by namespace and name, that it must have seen and tried before.
        """
        await self.until(
            lambda: self._is_idle() and self._tried(known),
            failure=lambda: f"it is not idle: {self.state()}",
            timeout_seconds=timeout_seconds,
        )
        return self.state()

    async def attempted(
        self, pod: str, *, attempt: int = 1, timeout_seconds: float = 5.0
    ) -> Outcome:
        """Wait until so many attempts at a pod are over; return the last."""
        outcomes = self._parts.journal.outcomes
        await self.until(
            lambda: pod in outcomes and outcomes[pod].attempt >= attempt,
            failure=lambda: f"no attempt {attempt} at {pod}: {outcomes.get(pod)}",
            timeout_seconds=timeout_seconds,
        )
        return outcomes[pod]

    def _is_idle(self) -> bool:
        queue = self._parts.queue
        busy = queue.active or queue.backing_off or queue.in_flight or self._attempts.binding
        return self._standing.synced and not (busy or self._parts.reporter.pending)

    def _tried(self, known: tuple[str, ...]) -> bool:
        if not known:
            return True
        seen: Mapping[str, PodInfo] = {pod.key: pod for pod in self._parts.cluster.pods.values()}
        outcomes = self._parts.journal.outcomes
        return all(key in outcomes or (key in seen and seen[key].node_name) for key in known)


def _queued(pods: Iterable[QueuedPod]) -> tuple[QueuedPodState, ...]:
    now = asyncio.get_running_loop().time()
    return tuple(
        QueuedPodState(
            pod=queued.pod.key,
            priority=queued.pod.priority,
            attempts=queued.attempts,
            rejectors=tuple(sorted(queued.rejectors)),
            backoff_seconds=max(0.0, queued.ready_at - now),
        )
        for queued in pods
    )
