"""One attempt at a pod: cycle, assumption, binding in the background, and what if it fails.

Facts: schedule_one.go of 1.36. Binding runs beside the next pods' cycles. An extender that
binds comes before the scheduler's own binding. After a failed binding the assumption is
forgotten, which counts as the end of a pod for the others, and the pod backs off; unless the
watch shows by then that it was bound after all.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from gpushare_plugin.sim.scheduler.api_client import ApiClient, ApiError
from gpushare_plugin.sim.scheduler.cluster import Cluster
from gpushare_plugin.sim.scheduler.cycle import Placement, SchedulingCycle
from gpushare_plugin.sim.scheduler.diagnosis import Diagnosis, NoNodesError, UnfitError
from gpushare_plugin.sim.scheduler.extender_client import HttpExtender
from gpushare_plugin.sim.scheduler.extender_wire import ExtenderError
from gpushare_plugin.sim.scheduler.happenings import Happening
from gpushare_plugin.sim.scheduler.journal import Journal
from gpushare_plugin.sim.scheduler.objects import PodInfo
from gpushare_plugin.sim.scheduler.preempting import Preempted, Preempting
from gpushare_plugin.sim.scheduler.reporting import Reporter
from gpushare_plugin.sim.scheduler.scheduling_queue import QueuedPod, SchedulingQueue
from gpushare_plugin.sim.scheduler.states import Outcome, Result

_REASONS = {Result.UNSCHEDULABLE: "Unschedulable", Result.ERROR: "SchedulerError"}

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts work that ends with the scheduler at the latest."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an attempt works with."""

    cluster: Cluster
    queue: SchedulingQueue
    cycle: SchedulingCycle
    preempting: Preempting
    extenders: Sequence[HttpExtender]
    api: ApiClient
    reporter: Reporter
    journal: Journal


class Attempts:
    """Takes pods from the queue, one after the other."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.scheduling = ""
        """The pod whose cycle runs now."""
        self.binding: dict[str, str] = {}
        """Pods whose binding is on its way, by UID."""

    async def run(self, spawn: Spawn) -> None:
        """Schedule until cancelled."""
        while True:
            queued = await self._parts.queue.pop()
            self.scheduling = queued.pod.key
            try:
                await self._attempt(queued, spawn)
            finally:
                self.scheduling = ""
                self._parts.journal.changed()

    # ----------------------------------------------------------------------------- cycle

    async def _attempt(self, queued: QueuedPod, spawn: Spawn) -> None:
        parts, pod = self._parts, queued.pod
        if pod.terminating or pod.uid in parts.cluster.assumed:
            self._skip(queued)
            return
        try:
            placement = await parts.cycle.place(pod)
        except UnfitError as unfit:
            await self._unfit(queued, unfit.diagnosis)
        except NoNodesError as error:
            self._back(queued, Result.UNSCHEDULABLE, str(error))
        except ExtenderError as error:
            self._back(queued, Result.ERROR, str(error))
        else:
            parts.cluster.assume(pod, placement.node_name)
            self.binding[pod.uid] = pod.key
            parts.queue.done(pod.uid)
            spawn(self._bind(queued, placement))

    def _skip(self, queued: QueuedPod) -> None:
        pod = queued.pod
        if pod.terminating:
            self._parts.reporter.skipped(pod)
        self._parts.queue.done(pod.uid)
        self._parts.journal.ended(pod.key, Outcome(attempt=queued.attempts, result=Result.SKIPPED))

    async def _unfit(self, queued: QueuedPod, diagnosis: Diagnosis) -> None:
        result = await self._parts.preempting.attempt(queued.pod, diagnosis)
        message = diagnosis.message(result.message)
        if result.promise is not None:
            self._parts.cluster.nominate(queued.pod, result.promise)
        self._back(
            queued,
            Result.UNSCHEDULABLE,
            message,
            rejectors=diagnosis.rejectors,
            preempted=result,
        )

    # --------------------------------------------------------------------------- binding

    async def _bind(self, queued: QueuedPod, placement: Placement) -> None:
        parts, pod, node_name = self._parts, queued.pod, placement.node_name
        error = await self._binding_error(pod, node_name)
        del self.binding[pod.uid]
        outcome = Outcome(
            attempt=queued.attempts,
            result=Result.ERROR if error else Result.BOUND,
            node=node_name,
            message=error,
            scores=placement.scores,
        )
        if not error:
            parts.reporter.bound(pod, node_name)
            parts.journal.ended(pod.key, outcome)
            return
        if parts.cluster.forget(pod.uid):
            parts.queue.happened(Happening.POD_DELETED)
        self._return(queued, outcome, rejectors=frozenset(), promise="")

    async def _binding_error(self, pod: PodInfo, node_name: str) -> str:
        for extender in self._parts.extenders:
            if not extender.settings.bind_verb or not extender.interested(pod):
                continue
            try:
                await extender.bind(pod, node_name)
            except ExtenderError as error:
                if extender.settings.ignorable:
                    _log.info("skipped: %s", error)
                    continue
                return str(error)
            return ""
        try:
            await self._parts.api.bind(pod, node_name)
        except ApiError as error:
            return f'running Bind plugin "DefaultBinder": {error}'
        return ""

    # --------------------------------------------------------------------------- failure

    def _back(
        self,
        queued: QueuedPod,
        result: Result,
        message: str,
        *,
        rejectors: frozenset[str] = frozenset(),
        preempted: Preempted | None = None,
    ) -> None:
        preempted = preempted or Preempted(promise="")
        outcome = Outcome(
            attempt=queued.attempts,
            result=result,
            message=message,
            nominated_node=preempted.promise or "",
            victims=tuple(victim.key for victim in preempted.victims),
        )
        self._return(queued, outcome, rejectors=rejectors, promise=preempted.promise)

    def _return(
        self,
        queued: QueuedPod,
        outcome: Outcome,
        *,
        rejectors: frozenset[str],
        promise: str | None,
    ) -> None:
        parts = self._parts
        now = parts.cluster.pods.get(queued.pod.uid)
        if now is not None and not now.node_name:
            queued.pod = now
            parts.queue.refused(queued, rejectors)
        else:
            parts.queue.done(queued.pod.uid)
        if promise is not None and not outcome.nominated_node:
            parts.cluster.nominate(queued.pod, "")
        reason = _REASONS[outcome.result]
        parts.reporter.failed(queued.pod, reason, outcome.message, promise)
        parts.journal.ended(queued.pod.key, outcome)
