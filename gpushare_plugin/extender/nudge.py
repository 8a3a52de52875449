"""Pods that fit now are touched, so that kube-scheduler tries them again (case B77).

kube-scheduler tries a pod that was refused again when something of the cluster changes that
it knows to matter, else after five minutes. That a card is healthy again, that a list of
unhealthy cards was emptied, or that the card of a pod is known now is no such change; an
annotation of the pod itself is (kubernetes#122019 tells of versions that missed more).

Rule 1: who was asked about within the last second is not touched: the scheduler is at it.
Rule 2: a pod is touched at most once in ten seconds; twice as seldom each time that it is
not asked about afterwards, since then something else is in its way.
Rule 3: only on nodes that the scheduler asked about counts that it fits.
Rule 4: who is not the one that places pods touches none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpushare_plugin.core.fitting import Misfit
from gpushare_plugin.errors import ApiError, ApiUnavailable, AskError
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.waiting import WaitingPod, WaitingPods
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.cluster import StatusPatch
from gpushare_plugin.ports.scheduling import PodToucher

log = event_logger(__name__)

NUDGED = "gpushare.io/nudged"
"""The annotation; its value is when, RFC 3339 in UTC."""
QUIET_SECONDS = 1.0
AGAIN_SECONDS = 10.0
LONGEST_SECONDS = 300.0
MOST_IN_A_ROUND = 32
CALL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Nudge:
    at_seconds: float
    wait_seconds: float


class Nudging:
    """Touches waiting pods for which there is room now."""

    def __init__(  # noqa: PLR0913 - the seams of who helps the waiting
        self,
        waiting: WaitingPods,
        cluster: Cluster,
        fits: Fits,
        pods: PodToucher,
        *,
        is_active: Callable[[], Awaitable[bool]],
        clock: Callable[[], float],
        now_text: Callable[[], str],
        counted: Callable[[str], None],
    ) -> None:
        """`is_active` says whether it is us whom the scheduler asks.

        `clock` is monotonic, in seconds; `now_text` is the annotation's value; `counted` is
        told of each touch: "touched" or "failed".
        """
        self._waiting = waiting
        self._cluster = cluster
        self._fits = fits
        self._pods = pods
        self._is_active = is_active
        self._clock = clock
        self._now_text = now_text
        self._counted = counted
        self._nudges: dict[str, _Nudge] = {}
        self._wake = asyncio.Event()
        self._trouble: type[ApiError] | None = None
        cluster.on_change(self._changed)

    async def run(self) -> None:
        """Touch whoever has room, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            wait_seconds: float | None = QUIET_SECONDS
            while wait_seconds is not None:
                await asyncio.sleep(wait_seconds)
                wait_seconds = await self._round()

    def _changed(self, node_name: str) -> None:
        del node_name
        if self._waiting:
            self._wake.set()

    async def _round(self) -> float | None:
        """Touch who may be touched; return when to look again, None if nobody is left."""
        waiting = self._waiting.current()
        self._forget_nudges({each.pod.uid for each in waiting})
        roomy = []
        for each in waiting:
            if self._fits_now(each):
                roomy.append(each)
            # With many that wait and many nodes that changed, calls go in between.
            await asyncio.sleep(0)
        due = [each for each in roomy if self._is_due(each)]
        due.sort(key=lambda each: -each.pod.priority)
        if due and not await self._is_active():
            return AGAIN_SECONDS
        answered = await self._touch(due[:MOST_IN_A_ROUND])
        if not answered:
            return AGAIN_SECONDS
        return QUIET_SECONDS if roomy else None

    def _fits_now(self, waiting: WaitingPod) -> bool:
        """Say whether a change since it was asked about made room; if not, look no more at it."""
        changed = self._cluster.changed_since(waiting.generation)
        names = self._cluster.node_names if changed is None else changed
        asked = [name for name in names if waiting.was_refused_on(name)]
        generation = self._cluster.generation
        try:
            ask = self._fits.ask_of(waiting.pod)
        except AskError:
            return False
        misfits = self._fits.misfits(asked, ask, uid=waiting.pod.uid)
        if any(not isinstance(each, Misfit) for each in misfits):
            return True
        waiting.generation = generation
        return False

    def _is_due(self, waiting: WaitingPod) -> bool:
        now_seconds = self._clock()
        last = self._nudges.get(waiting.pod.uid)
        if last is not None and now_seconds - last.at_seconds < self._wait_seconds(last, waiting):
            return False
        return now_seconds - waiting.asked_at_seconds >= QUIET_SECONDS

    def _wait_seconds(self, last: _Nudge, waiting: WaitingPod) -> float:
        asked_since = waiting.asked_at_seconds > last.at_seconds
        return AGAIN_SECONDS if asked_since else last.wait_seconds

    async def _touch(self, due: list[WaitingPod]) -> bool:
        """Touch one after the other; say whether the API server answers."""
        for waiting in due:
            wait_seconds = AGAIN_SECONDS
            last = self._nudges.get(waiting.pod.uid)
            if last is not None:
                wait_seconds = min(LONGEST_SECONDS, 2 * self._wait_seconds(last, waiting))
            self._nudges[waiting.pod.uid] = _Nudge(self._clock(), wait_seconds)
            try:
                await self._touch_one(waiting)
            except ApiUnavailable as error:
                self._failed(waiting, error)
                return False
            except ApiError as error:
                self._failed(waiting, error)
        return True

    async def _touch_one(self, waiting: WaitingPod) -> None:
        pod = waiting.pod
        patch = StatusPatch(uid=pod.uid, annotations={NUDGED: self._now_text()})
        await self._pods.touch_pod(pod.namespace, pod.name, patch, timeout_seconds=CALL_SECONDS)
        self._trouble = None
        self._counted("touched")
        log.info("nudged", pod=pod, uid=pod.uid)

    def _failed(self, waiting: WaitingPod, error: ApiError) -> None:
        self._counted("failed")
        if self._trouble is not type(error):
            self._trouble = type(error)
            log.warning("nudge_failing", pod=waiting.pod, error=error)

    def _forget_nudges(self, waiting: set[str]) -> None:
        now_seconds = self._clock()
        self._nudges = {
            uid: each
            for uid, each in self._nudges.items()
            if uid in waiting or now_seconds - each.at_seconds < AGAIN_SECONDS
        }
