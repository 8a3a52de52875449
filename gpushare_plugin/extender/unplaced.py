"""Events on pods that fit nowhere: `GpuNotPlaced`, with the reason in one sentence.

Rule 1: one pod has one such event at a time: it is told again when the text is another
one, and at most once a minute.
Rule 2: nothing of it is done while filter answers; of many pods that wait for the same
the sentence is made once.
Rule 3: an event that cannot be written is told once in the log, and dropped.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gpushare_plugin.errors import ApiError, AskError
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtered
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.summary import summary
from gpushare_plugin.extender.waiting import WaitingPod, WaitingPods
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.cluster import EventWriter, Occurrence, Subject

log = event_logger(__name__)

REASON = "GpuNotPlaced"
QUIET_SECONDS = 1.0
AGAIN_SECONDS = 60.0
MOST_IN_A_ROUND = 20


@dataclass(frozen=True, slots=True)
class _Told:
    text: str
    at_seconds: float


class Unplaced:
    """Writes the events."""

    def __init__(
        self,
        waiting: WaitingPods,
        cluster: Cluster,
        fits: Fits,
        events: EventWriter,
        *,
        clock: Callable[[], float],
    ) -> None:
        """`clock` is monotonic, in seconds."""
        self._waiting = waiting
        self._cluster = cluster
        self._fits = fits
        self._events = events
        self._clock = clock
        self._told: dict[str, _Told] = {}
        self._trouble: type[ApiError] | None = None
        self._wake = asyncio.Event()
        waiting.on_refusal(self._wake.set)

    async def run(self) -> None:
        """Tell of each pod that was refused everywhere, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(QUIET_SECONDS)
            if await self._round():
                self._wake.set()

    async def _round(self) -> bool:
        """Tell of some; say whether there are more."""
        waiting = self._waiting.current()
        self._forget({each.pod.uid for each in waiting})
        due = [each for each in waiting if self._is_due(each)]
        texts: dict[int, str] = {}
        for each in due[:MOST_IN_A_ROUND]:
            key = id(each.answer)
            if key not in texts:
                texts[key] = self._text(each)
                await asyncio.sleep(0)
            await self._tell(each, texts[key])
        return len(due) > MOST_IN_A_ROUND

    def _is_due(self, waiting: WaitingPod) -> bool:
        told = self._told.get(waiting.pod.uid)
        if told is None:
            return True
        asked_since = waiting.asked_at_seconds > told.at_seconds
        return asked_since and self._clock() - told.at_seconds >= AGAIN_SECONDS

    async def _tell(self, waiting: WaitingPod, text: str) -> None:
        pod = waiting.pod
        before = self._told.get(pod.uid)
        self._told[pod.uid] = _Told(text, self._clock())
        if before is not None and before.text == text:
            return
        subject = Subject(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        try:
            await self._events.record(
                Occurrence(subject=subject, reason=REASON, message=text, warning=True)
            )
        except ApiError as error:
            if self._trouble is not type(error):
                self._trouble = type(error)
                log.warning("event_failing", pod=pod, reason=REASON, error=error)
        else:
            self._trouble = None

    def _text(self, waiting: WaitingPod) -> str:
        answer = waiting.answer
        reasons = _reasons(answer)
        try:
            ask = self._fits.ask_of(waiting.pod)
        except AskError as error:
            return str(error)
        found = (self._cluster.room(name) for name in (*answer.failed, *answer.unresolvable))
        return summary(ask, (room for room in found if room is not None), reasons)

    def _forget(self, waiting: set[str]) -> None:
        now_seconds = self._clock()
        self._told = {
            uid: told
            for uid, told in self._told.items()
            if uid in waiting or now_seconds - told.at_seconds < AGAIN_SECONDS
        }


def _reasons(answer: Filtered) -> tuple[str, ...]:
    return (*answer.failed.values(), *answer.unresolvable.values())
