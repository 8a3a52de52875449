"""One event set and one thread for all GPUs of the node.

Rule 1: a lost event set is made again; that it was lost is counted and said once.
Rule 2: the thread ends before NVML is closed: a wait on a closed NVML may crash.
Rule 3: what the thread dies of is raised to who listens: nobody is left believing
that events are heard.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass

from gpushare_plugin.errors import NvmlError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports import GpuEvent, GpuSource

log = event_logger(__name__)

SILENCE_SECONDS = 20.0
"""NVML is taken for hung if a call has not come back for this long."""
WAIT_SECONDS = 0.5
"""How long the thread waits for an event before it looks whether it should end.

NVML has no way to end a wait; each look costs some 0.1 ms."""
ENDING_SECONDS = 1.0
"""How long our end waits for that; only a wait that hangs takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSetMade:
    """A new event set: which GPUs it was asked for, and which of them tell no events."""

    asked: frozenset[str]
    unwatched: frozenset[str]


Heard = EventSetMade | GpuEvent


class EventPump:
    """Brings the driver's events to the event loop."""

    def __init__(self, gpus: GpuSource, metrics: NodeMetrics, clock: Callable[[], float]) -> None:
        self._gpus = gpus
        self._metrics = metrics
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[Heard | Exception] = asyncio.Queue()
        self._stop = threading.Event()
        self._renew = threading.Event()
        self._ended = asyncio.Event()
        self._lost: str | None = None
        self._alive_seconds = clock()

    @property
    def problem(self) -> str | None:
        """Why events may be missed; None if they are not."""
        silent_seconds = self._clock() - self._alive_seconds
        if silent_seconds > SILENCE_SECONDS:
            return f"the driver's events have not been heard for {silent_seconds:.0f} s"
        return self._lost

    def renew(self) -> None:
        """Make the event set anew: there are other GPUs now."""
        self._renew.set()

    async def heard(self) -> AsyncGenerator[Heard, None]:
        """Yield what is heard, until cancelled; raises what the thread died of."""
        threading.Thread(target=self._run, name="nvml-events", daemon=True).start()
        try:
            while True:
                heard = await self._heard.get()
                if isinstance(heard, Exception):
                    raise heard
                yield heard
        finally:
            self._stop.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._ended.wait()

    def _run(self) -> None:
        try:
            self._pump_again_and_again()
        except Exception as error:  # noqa: BLE001  # handed on to who listens
            self._post(self._heard.put_nowait, error)
        self._post(self._ended.set)

    def _pump_again_and_again(self) -> None:
        back_off = BackOff()
        while not self._stop.is_set():
            self._alive_seconds = self._clock()
            try:
                self._pump(back_off)
            except NvmlError as error:
                self._metrics.event_set_failures.inc()
                was_lost = self._lost is not None
                self._lost = f"the driver's events are lost: {error}"
                if not was_lost:
                    log.error("event_set_lost", error=error, doing="trying again")
                self._stop.wait(back_off.next_seconds())

    def _pump(self, back_off: BackOff) -> None:
        """Hear events of one event set until it is to be made anew."""
        self._renew.clear()
        events = self._gpus.events()
        was_lost, self._lost = self._lost is not None, None
        if was_lost:
            log.info("event_set_made_again")
        try:
            self._tell(EventSetMade(asked=events.asked, unwatched=events.unwatched))
            while not self._stop.is_set() and not self._renew.is_set():
                event = events.wait(timeout_seconds=WAIT_SECONDS)
                back_off.reset()
                self._alive_seconds = self._clock()
                if event is not None:
                    self._tell(event)
        finally:
            events.close()

    def _tell(self, heard: Heard) -> None:
        self._post(self._heard.put_nowait, heard)

    def _post(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)
