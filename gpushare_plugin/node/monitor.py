"""The GPUs over time: wait for the driver, look, probe, and hear its events.

Rule 1: a driver that is not there is waited for, and said so once; nothing is
advertised meanwhile.
Rule 2: at start the cards are probed, never assumed to be well.
Rule 3: every blocking call runs in a thread that nobody has to wait for, so an NVML
that hangs stops neither the kubelet's calls nor our end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TypeVar

from gpushare_plugin.core.health import GOOD_PROBES_TO_RECOVER, XidRule
from gpushare_plugin.errors import DriverReplaced, NvmlError, NvmlUnavailable
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.card_watch import CardWatch
from gpushare_plugin.node.event_pump import SILENCE_SECONDS, EventPump, EventSetMade
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.worker import WorkerThread
from gpushare_plugin.ports import GpuSource, Link, Probe, Reading

T = TypeVar("T")

log = event_logger(__name__)

RESTART_SECONDS = 60.0
"""How long a replaced driver is given to fit again (a reload takes seconds)."""
CLOSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorRule:
    """What is watched, and how often."""

    xids: XidRule
    health: bool
    probe_seconds: float

    @property
    def recovery_seconds(self) -> float:
        """The time that a row of good probes must span: 60 s at the default of 30.

        A little less than the probes are apart, since a clock and a sleep differ.
        """
        return (GOOD_PROBES_TO_RECOVER - 1) * self.probe_seconds * 0.99


class GpuMonitor:
    """Keeps the inventory true to what NVML says."""

    def __init__(
        self,
        gpus: GpuSource,
        inventory: Inventory,
        metrics: NodeMetrics,
        rule: MonitorRule,
        clock: Callable[[], float],
    ) -> None:
        self._gpus = gpus
        self._inventory = inventory
        self._metrics = metrics
        self._rule = rule
        self._clock = clock
        self._watch = CardWatch(
            inventory, metrics, rule.xids, recovery_seconds=rule.recovery_seconds, clock=clock
        )
        self._worker = WorkerThread("nvml")
        self._pump: EventPump | None = None
        self._asked_seconds: list[float] = []
        """Since when each call that has not come back is waited for, the oldest first."""
        self._problem: str | None = "NVML was not asked yet"
        self._events_of: frozenset[str] = frozenset()
        self._listeners: list[Callable[[Reading], None]] = []
        self._recall: Callable[[Reading], Awaitable[None]] | None = None
        self.links: tuple[Link, ...] = ()
        """How the GPUs are joined, once it has been asked."""
        self._opened = False
        self._replaced_seconds: float | None = None
        self.first_reading: asyncio.Future[Reading] = asyncio.get_running_loop().create_future()
        """Done once there are cards to share."""

    def before_first(self, recall: Callable[[Reading], Awaitable[None]]) -> None:
        """Await this with what NVML shows, as long as no card is known."""
        self._recall = recall

    def on_reading(self, listener: Callable[[Reading], None]) -> None:
        """Call this after each look at the GPUs but the first, and once their links are known."""
        self._listeners.append(listener)

    @property
    def problem(self) -> str | None:
        """Why the cards may not be as the inventory says; None if they are."""
        if self._asked_seconds:
            silent_seconds = self._clock() - self._asked_seconds[0]
            if silent_seconds > SILENCE_SECONDS:
                return f"NVML has not answered for {silent_seconds:.0f} s"
        if self._problem is None and self._pump is not None:
            return self._pump.problem
        return self._problem

    @property
    def needs_restart(self) -> str | None:
        """Why this process can never see the cards again; None if it may."""
        if self._replaced_seconds is None:
            return None
        if self._clock() - self._replaced_seconds < RESTART_SECONDS:
            return None
        return "the driver was replaced, and this process keeps the library that it loaded"

    async def run(self) -> None:
        """Wait for the driver and watch the cards, again and again, until cancelled.

        Raises:
            UnitError: the memory unit cannot work on the cards that are there.
        """
        back_off = BackOff()
        try:
            while True:
                try:
                    await self._watch_once(back_off)
                except* NvmlError as group:
                    self._trouble(group.exceptions[0])
                await asyncio.sleep(back_off.next_seconds())
        finally:
            self._worker.close()

    async def _watch_once(self, back_off: BackOff) -> None:
        """Watch until the driver does not answer; never returns by itself."""
        await self._call(self._gpus.open)
        try:
            reading = await self._first_look()
            back_off.reset()
            self.links = await self._call(self._gpus.links)
            self._tell(reading)
            await self._keep_looking()
        finally:
            await self._close()

    async def _first_look(self) -> Reading:
        reading = await self._call(self._gpus.read)
        if not self._inventory.cards and self._recall is not None:
            await self._recall(reading)
        self._inventory.take_reading(reading)
        if not self._inventory.cards:
            left_out = "; ".join(f"{each.name}: {each.reason}" for each in self._inventory.left_out)
            raise NvmlError(f"no GPU of this node can be shared: {left_out or 'there is none'}")
        await self._judge(reading, at_start=not self._opened)
        self._problem = None
        self._opened, self._replaced_seconds = True, None
        log.info(
            "nvml_answers",
            driver=reading.driver_version,
            cuda=reading.cuda_version,
            cards=len(self._inventory.cards),
        )
        if not self.first_reading.done():
            self.first_reading.set_result(reading)
        return reading

    async def _keep_looking(self) -> None:
        if not self._rule.health:
            await self._look_again()
            return
        pump = EventPump(self._gpus, self._metrics, self._clock)
        self._pump = pump
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hear(pump), name="hear the driver's events")
            tasks.create_task(self._look_again(), name="look at the cards again")

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(self._rule.probe_seconds)
            try:
                reading = await self._call(self._gpus.read)
            except NvmlUnavailable as error:
                if self._rule.health:
                    self._watch.all_unreachable(str(error))
                raise
            self._inventory.take_reading(reading)
            await self._judge(reading, at_start=False)
            self._tell(reading)
            if self._pump is not None and not _whole_gpus(reading) <= self._events_of:
                # An event set hears only the GPUs that were registered with it.
                self._pump.renew()

    async def _judge(self, reading: Reading, *, at_start: bool) -> None:
        if self._rule.health:
            await self._watch.look(reading, self._ask)
        else:
            self._watch.look_without_asking(reading, at_start=at_start)

    def _tell(self, reading: Reading) -> None:
        for listener in self._listeners:
            listener(reading)

    async def _hear(self, pump: EventPump) -> None:
        # Closed here and now, also when we are stopped in the middle of a reaction.
        async with aclosing(pump.heard()) as all_heard:
            async for heard in all_heard:
                if isinstance(heard, EventSetMade):
                    self._events_of = heard.asked
                    self._watch.set_unwatched(heard.unwatched)
                else:
                    await self._watch.react(heard, self._ask)

    async def _ask(self, uuid: str) -> Probe:
        return await self._call(self._gpus.probe, uuid)

    async def _close(self) -> None:
        self._pump = None
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._call(self._gpus.close)

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        asked_seconds = self._clock()
        self._asked_seconds.append(asked_seconds)
        try:
            return await self._worker.call(function, *arguments)
        finally:
            self._asked_seconds.remove(asked_seconds)

    def _trouble(self, error: BaseException) -> None:
        problem = str(error)
        if isinstance(error, DriverReplaced) and self._opened:
            self._replaced_seconds = self._replaced_seconds or self._clock()
        if problem != self._problem:
            log.error("nvml_unavailable", error=problem, doing="trying again")
        self._problem = problem


def _whole_gpus(reading: Reading) -> set[str]:
    return {gpu.mig.parent_uuid if gpu.mig else gpu.uuid for gpu in reading.gpus}
