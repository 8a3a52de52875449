"""The label `gpushare.io/leader=true`, by which the Service finds the pod of who leads.

Rule 1: it is on our pod while we lead, and on no other pod of the namespace; who leads
takes it off the others, also off those that cannot any more.
Rule 2: it is compared again every few seconds: a late request may put it back.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiError, ApiNotFound
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.cluster import StatusPatch
from gpushare_plugin.ports.scheduling import PodToucher

log = event_logger(__name__)

LABEL = "gpushare.io/leader"
LEADS = "true"
CALL_SECONDS = 3.0
STEP_SECONDS = 0.5
COMPARE_SECONDS = 10.0


class LabelledPods(PodToucher, Protocol):
    """Finds and changes pods, and reads our own."""

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        """Return a pod as it is now; raises ApiError."""


class LeaderLabel:
    """Keeps the label where it belongs."""

    def __init__(
        self,
        pods: LabelledPods,
        *,
        namespace: str,
        pod_name: str,
        leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        """`namespace` and `pod_name` are our own pod's; `clock` is monotonic, in seconds."""
        self._pods = pods
        self._namespace = namespace
        self._pod_name = pod_name
        self._leads = leads
        self._clock = clock
        self._shows: bool | None = None
        self._next_seconds = 0.0
        self._trouble: type[ApiError] | None = None

    async def run(self) -> None:
        """Keep it until cancelled; then take it off our pod."""
        try:
            while True:
                await self._keep()
                await asyncio.sleep(STEP_SECONDS)
        finally:
            with suppress(ApiError):
                await self._take_off(await self._labelled(), own=True)

    async def _keep(self) -> None:
        leads = self._leads()
        if leads is self._shows and (not leads or self._clock() < self._next_seconds):
            return
        self._shows = None
        try:
            await self._compare(leads=leads)
        except ApiError as error:
            if self._trouble is not type(error):
                self._trouble = type(error)
                log.warning("leader_label_failing", pod=self._pod_name, error=error)
            return
        self._trouble = None
        self._shows = leads
        self._next_seconds = self._clock() + COMPARE_SECONDS

    async def _compare(self, *, leads: bool) -> None:
        labelled = await self._labelled()
        await self._take_off(labelled, own=not leads)
        if leads and self._leads() and not any(self._is_own(pod) for pod in labelled):
            own = await self._pods.get_pod(
                self._namespace, self._pod_name, timeout_seconds=CALL_SECONDS
            )
            if self._leads():
                await self._touch(own, LEADS)

    async def _labelled(self) -> tuple[Pod, ...]:
        return await self._pods.list_namespace_pods(
            self._namespace, label_selector=LABEL, timeout_seconds=CALL_SECONDS
        )

    async def _take_off(self, labelled: tuple[Pod, ...], *, own: bool) -> None:
        """Take it off our own pod, or off all others as long as we lead."""
        for pod in labelled:
            if self._is_own(pod) is own and (own or self._leads()):
                with suppress(ApiNotFound):
                    await self._touch(pod, None)

    async def _touch(self, pod: Pod, value: str | None) -> None:
        patch = StatusPatch(uid=pod.uid, labels={LABEL: value})
        await self._pods.touch_pod(pod.namespace, pod.name, patch, timeout_seconds=CALL_SECONDS)

    def _is_own(self, pod: Pod) -> bool:
        return pod.name == self._pod_name
