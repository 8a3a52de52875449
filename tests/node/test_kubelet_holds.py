"""What the kubelet says that it holds of us, which /readyz asks."""

import asyncio
from pathlib import Path

import pytest

from gpushare_plugin.adapters.podresources import PodResourcesClient
from gpushare_plugin.config import load_node_config
from gpushare_plugin.errors import PodResourcesError
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.kubelet_holds import KubeletHolds
from gpushare_plugin.ports import Reading
from tests.core.cards import gpu
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, node_in


async def test_the_kubelet_tells_how_many_healthy_units_it_holds(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        client = PodResourcesClient(node.kubelet.settings.pod_resources_socket)
        try:
            assert await client.allocatable_units(RESOURCE, timeout_seconds=5) == 30
            assert await client.allocatable_units("a.com/other", timeout_seconds=5) == 0
        finally:
            await client.close()


def one_card() -> Inventory:
    inventory = Inventory(load_node_config({}, {}).sharing, NodeMetrics())
    reading = Reading(
        gpus=(gpu(total_mib=15_360),),
        left_out=(),
        driver_version="",
        cuda_version="",
        any_mig=False,
    )
    inventory.take_reading(reading)
    return inventory


async def test_a_kubelet_that_holds_nothing_is_a_problem_and_one_that_does_not_tell_is_none() -> (
    None
):
    inventory = one_card()
    answers: list[int | None] = [0, 15, None]

    async def ask() -> int:
        units = answers.pop(0)
        if units is None:
            raise PodResourcesError("nobody answers")
        return units

    holds = KubeletHolds(ask, inventory)
    said = []
    for _ in range(3):
        await holds.look()
        said.append(holds.problem)

    assert said == ["the kubelet holds none of the 15 units that it was told of", None, None]


async def test_while_all_is_well_the_kubelet_is_asked_along_with_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpushare_plugin.node.kubelet_holds.BETWEEN_SECONDS", 0.001)
    asked = asyncio.Semaphore(0)

    async def ask() -> int:
        asked.release()
        return 15

    holds = KubeletHolds(ask, one_card())
    task = asyncio.create_task(holds.run())
    await asked.acquire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await asked.acquire()
    holds.ask_along()
    await asked.acquire()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_kubelet_that_holds_nothing_is_asked_again_without_being_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpushare_plugin.node.kubelet_holds.BETWEEN_SECONDS", 0.001)
    asked = asyncio.Semaphore(0)

    async def ask() -> int:
        asked.release()
        return 0

    task = asyncio.create_task(KubeletHolds(ask, one_card()).run())
    for _ in range(3):
        await asked.acquire()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
