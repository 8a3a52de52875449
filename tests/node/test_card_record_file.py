"""The card record's file: written by who serves, on change, and in nobody's way."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.errors import RecordError
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.card_record import CardRecordKeeper
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.ports import Reading
from gpushare_plugin.sim.kubelet import Phase
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, SECOND, Machine, node_in, pod
from tests.node.scripted_gpus import gpu
from tests.node.waiting import eventually


def file_in(folder: Path) -> Path:
    return folder / "plugins" / "gpushare-aliyun.com_gpu-mem.cards.json"


async def test_a_file_that_cannot_be_written_stops_nobody_and_is_told_once_and_counted(
    short_path: Path, log: EventLog
) -> None:
    (file_in(short_path) / "something").mkdir(parents=True)
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()
        status = await node.kubelet.admit(pod("a", 4))

        async def counted() -> bool:
            return (await node.metric("gpushare_card_record_failures_total") or 0) >= 2

        await eventually(counted)
        assert await node.page("/readyz") == (200, "ok\n")

    assert status.phase is Phase.RUNNING
    [line] = log.of("card_record_not_written")
    assert str(file_in(short_path)) in line["error"]
    assert "cannot be read: Is a directory" in log.of("card_record_unreadable")[0]["error"]


async def test_only_who_serves_writes_the_file(short_path: Path, log: EventLog) -> None:
    file_in(short_path).parent.mkdir()
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await log.said("not_registered")
        assert not file_in(short_path).exists()

        await node.kubelet.start()
        await log.said("card_record_written")


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Paper:
    """A record's file in memory that somebody may take away."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.there = False
        self.full = False

    def read(self) -> str | None:
        return self.texts[-1] if self.there else None

    def write(self, text: str) -> None:
        if self.full:
            raise RecordError("no space left")
        self.texts.append(text)
        self.there = True

    def is_kept(self) -> bool:
        return self.there


async def test_the_file_is_written_on_change_and_anew_once_it_is_gone(log: EventLog) -> None:
    metrics = NodeMetrics()
    inventory = Inventory(SharingRule(units=UnitRule(unit_mib=1024)), metrics)
    paper = Paper()

    def text() -> str:
        return ",".join(card.uuid for card in inventory.cards)

    def show(*uuids: str) -> None:
        gpus = tuple(gpu(uuid) for uuid in uuids)
        inventory.take_reading(
            Reading(gpus=gpus, left_out=(), driver_version="", cuda_version="", any_mig=False)
        )

    keeper = CardRecordKeeper(paper, inventory, metrics, text, tick_seconds=0.01)
    show(FIRST)
    async with running(keeper.run()):
        await eventually(lambda: paper.texts == [FIRST])
        paper.there = False
        await eventually(lambda: paper.texts == [FIRST, FIRST])
        paper.full = True
        show(FIRST, SECOND)
        await log.said("card_record_not_written")
        paper.full = False
        await eventually(lambda: paper.texts == [FIRST, FIRST, f"{FIRST},{SECOND}"])
