"""The monitor over scripted GPUs, with a clock that a test can put forward."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpushare_plugin.core.health import XidRule
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.monitor import GpuMonitor, MonitorRule
from tests.node.scripted_gpus import ScriptedGpus


class Clock:
    """A clock that a test can put forward."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_seconds


class Watched:
    """A monitor over scripted GPUs, with what it writes into."""

    def __init__(self, gpus: ScriptedGpus, *, probe_seconds: float) -> None:
        self.gpus = gpus
        self.clock = Clock()
        self.metrics = NodeMetrics()
        rule = SharingRule(units=UnitRule(unit_mib=1024))
        self.inventory = Inventory(rule, self.metrics)
        self.monitor = GpuMonitor(
            gpus,
            self.inventory,
            self.metrics,
            MonitorRule(xids=XidRule(), health=True, probe_seconds=probe_seconds),
            self.clock,
        )

    async def hung(self, call: str) -> None:
        """Let a call hang, and wait until one does and would be missed by now."""
        began = self.gpus.hang(call)
        assert await asyncio.to_thread(began.wait, 5)
        self.clock.ahead_seconds += 30


@asynccontextmanager
async def watching(gpus: ScriptedGpus, *, probe_seconds: float = 0.05) -> AsyncIterator[Watched]:
    watched = Watched(gpus, probe_seconds=probe_seconds)
    running = asyncio.create_task(watched.monitor.run(), name="the monitor under test")
    try:
        async with asyncio.timeout(5):
            await watched.monitor.first_reading
        yield watched
    finally:
        running.cancel()
        async with asyncio.timeout(2):
            await asyncio.gather(running, return_exceptions=True)
