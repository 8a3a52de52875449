"""What the scheduler tells the cluster of a pod: events, the PodScheduled condition, a promise.

Rule 1: telling never holds up a cycle: it is done in the background, in order, and lost (and
logged) where the API server refuses.
Rule 2: events are events.k8s.io/v1; the same note about the same pod again counts up the
series. kube-scheduler's recorder merges differing notes too; here none is lost.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from gpushare_plugin.sim.scheduler.api_client import ApiClient, ApiError
from gpushare_plugin.sim.scheduler.diagnosis import cut_note
from gpushare_plugin.sim.scheduler.objects import Json, PodInfo

_EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
_KEPT_SERIES = 4096

_log = logging.getLogger(__name__)


def condition(kind: str, status: str, reason: str, message: str) -> Json:
    """Return a pod condition of now."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


class Reporter:
    """Writes one thing after the other."""

    def __init__(
        self, api: ApiClient, *, scheduler_name: str, identity: str, changed: Callable[[], None]
    ) -> None:
        self._api = api
        self._scheduler_name = scheduler_name
        self._identity = identity
        self._changed = changed
        self._work: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue()
        self._series: dict[tuple[str, ...], tuple[str, int]] = {}
        """The event and its count, by what it says of whom."""
        self.pending = 0
        """How many reports are not written yet."""

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                work = await self._work.get()
                try:
                    await work
                except ApiError as error:
                    _log.warning("a report is lost: %s", error)
                self.pending -= 1
                self._changed()
        finally:
            while not self._work.empty():
                self._work.get_nowait().close()

    # -------------------------------------------------------------------------- reports

    def failed(self, pod: PodInfo, reason: str, message: str, promise: str | None) -> None:
        """A pod was not placed: the event, the condition, and the promise where it changed."""
        self._do(self._event(pod, "Warning", "FailedScheduling", "Scheduling", message))
        wanted = condition("PodScheduled", "False", reason, message)
        status: Json = {} if _has(pod, wanted) else {"conditions": [wanted]}
        if promise is not None and promise != pod.nominated_node:
            status["nominatedNodeName"] = promise or None
        if status:
            self._do(self._api.patch_pod_status(pod, status))

    def skipped(self, pod: PodInfo) -> None:
        """A pod's turn came while it was being deleted."""
        note = f"skip schedule deleting pod: {pod.key}"
        self._do(self._event(pod, "Warning", "FailedScheduling", "Scheduling", note))

    def bound(self, pod: PodInfo, node_name: str) -> None:
        """A pod was bound."""
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._do(self._event(pod, "Normal", "Scheduled", "Binding", note))

    def preempted(self, victim: PodInfo, pod: PodInfo, node_name: str) -> None:
        """A pod had to go."""
        note = f"Preempted by pod {pod.uid} on node {node_name}"
        self._do(self._event(victim, "Normal", "Preempted", "Preempting", note, related=pod))

    def promised(self, pod: PodInfo, node_name: str) -> None:
        """A promise changed, and nothing else."""
        self._do(self._api.patch_pod_status(pod, {"nominatedNodeName": node_name or None}))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self.pending += 1
        self._work.put_nowait(work)

    # --------------------------------------------------------------------------- events

    async def _event(
        self,
        pod: PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        *,
        related: PodInfo | None = None,
    ) -> None:
        note, path = cut_note(note), _EVENTS.format(pod.namespace)
        same = (pod.uid, kind, reason, note)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if same in self._series:
            name, count = self._series[same]
            series = {"count": count + 1, "lastObservedTime": now}
            await self._api.merge(f"{path}/{name}", {"series": series})
            self._series[same] = (name, count + 1)
            return
        name = f"{pod.name[:200]}.{uuid.uuid4().hex[:16]}"
        event = {
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": name, "namespace": pod.namespace},
            "eventTime": now,
            "reportingController": self._scheduler_name,
            "reportingInstance": f"{self._scheduler_name}-{self._identity}",
            "action": action,
            "reason": reason,
            "type": kind,
            "note": note,
            "regarding": _reference(pod),
        }
        await self._api.create(path, event | ({"related": _reference(related)} if related else {}))
        self._series[same] = (name, 1)
        while len(self._series) > _KEPT_SERIES:
            del self._series[next(iter(self._series))]


def _reference(pod: PodInfo) -> Json:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.version,
    }


def _has(pod: PodInfo, wanted: Json) -> bool:
    compared = ("type", "status", "reason", "message")
    return any(
        all(found.get(name) == wanted[name] for name in compared)
        for found in pod.status.get("conditions") or ()
    )
