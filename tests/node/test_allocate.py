"""Allocate: what a container is given, and how many ask at once."""

import asyncio
from collections import Counter
from pathlib import Path

import grpc
import pytest

from gpushare_plugin.sim.kubelet import ContainerSpec, Phase, PodSpec
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, RESOURCE, SECOND, SECOND_TAG, node_in, pod
from tests.node.plugin_client import ids, plugin_at


def _environment(uuid: str, index: int, units: int, of: int = 15) -> dict[str, str]:
    return {
        "NVIDIA_VISIBLE_DEVICES": uuid,
        "ALIYUN_COM_GPU_MEM_IDX": str(index),
        "ALIYUN_COM_GPU_MEM_POD": str(units),
        "ALIYUN_COM_GPU_MEM_CONTAINER": str(units),
        "ALIYUN_COM_GPU_MEM_DEV": str(of),
    }


async def test_b59_the_card_of_the_ids_is_the_card_that_the_container_gets(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            [first] = await plugin.allocate(ids(FIRST_TAG, 3, 1))
            [second] = await plugin.allocate(ids(SECOND_TAG, 14, 0, 7, 2))

    assert dict(first.envs) == _environment(FIRST, 0, 2)
    assert dict(second.envs) == _environment(SECOND, 1, 4)


async def test_a_container_is_given_nothing_but_the_environment(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        status = await node.kubelet.admit(pod("a", 4))

    container = status.container("c0")
    assert dict(container.env) == _environment(FIRST, 0, 4)
    assert not container.mounts
    assert not container.device_nodes
    assert not container.annotations
    assert not container.cdi_devices


async def test_several_containers_of_one_call_are_answered_in_their_order(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            answers = await plugin.allocate(ids(SECOND_TAG, 0), ids(FIRST_TAG, 0, 1, 2))

    found = [dict(each.envs) for each in answers]
    assert found == [_environment(SECOND, 1, 1), _environment(FIRST, 0, 3)]


async def test_a_thousand_containers_in_one_call_are_answered(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            answers = await plugin.allocate(*[ids(FIRST_TAG, n % 15) for n in range(1000)])

    assert len(answers) == 1000
    assert all(dict(each.envs) == _environment(FIRST, 0, 1) for each in answers)


async def test_b52_containers_without_units_leave_no_gap_in_the_others(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        units = {"cpu-first": 0, "one": 1, "two": 2, "cpu-last": 0}
        spec = PodSpec(
            name="mixed",
            uid="uid-mixed",
            containers=tuple(
                ContainerSpec(name=name, requests={RESOURCE: number} if number else {})
                for name, number in units.items()
            ),
            init_containers=(ContainerSpec(name="init"),),
        )

        status = await node.kubelet.admit(spec)

    assert status.phase is Phase.RUNNING
    assert dict(status.container("one").env) == _environment(FIRST, 0, 1)
    assert dict(status.container("two").env) == _environment(FIRST, 0, 2)
    assert all(not status.container(name).env for name in ("init", "cpu-first", "cpu-last"))


async def test_b49_b50_pods_that_come_in_any_order_get_the_cards_of_their_own_ids(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, memory_unit="128MiB") as node:
        await node.ready(units=240)

        sizes = [8, 4, 6, 6, 2, 9, 1, 6, 6, 3] * 3
        pods = [pod(f"p{n}", units) for n, units in enumerate(sizes)]
        statuses = await asyncio.gather(*(node.kubelet.admit(each) for each in pods))

    for status, units in zip(statuses, sizes, strict=True):
        container = status.container("c0")
        [tag] = {device.partition("-")[0] for device in container.devices[RESOURCE]}
        uuid, index = {FIRST_TAG: (FIRST, 0), SECOND_TAG: (SECOND, 1)}[tag]
        assert dict(container.env) == _environment(uuid, index, units, of=120)


async def test_b25_a_request_of_0_units_makes_no_call_and_no_environment(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        zero = ContainerSpec(name="c0", requests={RESOURCE: 0})

        status = await node.kubelet.admit(PodSpec(name="z", uid="uid-z", containers=(zero,)))

    assert status.phase is Phase.RUNNING
    assert not status.container("c0").env
    assert not [rpc for rpc in node.kubelet.state().rpcs if rpc.method == "Allocate"]


async def test_b62_a_pod_of_the_count_alone_is_none_of_the_daemons_business(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        count = ContainerSpec(name="c0", requests={"aliyun.com/gpu-count": 1})

        status = await node.kubelet.admit(PodSpec(name="n", uid="uid-n", containers=(count,)))

    assert status.phase is Phase.RUNNING
    assert not [rpc for rpc in node.kubelet.state().rpcs if rpc.method == "Allocate"]


async def test_b64_a_container_that_restarts_keeps_its_card_and_is_counted_once(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        before = (await node.kubelet.admit(pod("a", 4))).container("c0")

        after = await node.kubelet.restart_container("uid-a", "c0")

    assert (after.restarts, dict(after.env)) == (1, dict(before.env))
    assert len(node.resource.allocated) == 4
    assert len(log.of("allocated")) == 1


async def test_b64_the_same_ids_asked_for_twice_get_the_same_answer(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            first = await plugin.allocate(ids(SECOND_TAG, 1, 2))
            second = await plugin.allocate(ids(SECOND_TAG, 2, 1))

    assert first == second


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
async def test_b60_a_start_of_a_container_is_answered_for_ids_in_any_order(
    short_path: Path, log: EventLog, order: tuple[int, ...]
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            answers = [await plugin.pre_start(ids(FIRST_TAG, *order)) for _ in range(3)]

    assert [answer.ByteSize() for answer in answers] == [0, 0, 0]


async def test_b56_a_call_that_fails_holds_nobody_up(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        bad, good = await asyncio.gather(
            node.kubelet.admit(pod("bad", 16)), node.kubelet.admit(pod("good", 15))
        )

    assert (bad.phase, good.phase) == (Phase.FAILED, Phase.RUNNING)


async def test_a_call_of_very_many_containers_lets_the_others_through(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, log_level="warning") as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin, plugin_at(node.socket()) as other:
            order: list[str] = []

            async def call(name: str, count: int) -> None:
                client = plugin if name == "large" else other
                await client.allocate(*[ids(FIRST_TAG, 0)] * count)
                order.append(name)

            large = asyncio.create_task(call("large", 4_000))
            await asyncio.sleep(0)
            await asyncio.gather(*(call("small", 1) for _ in range(5)))
            await large

    assert Counter(order[:5]) == {"small": 5}


async def test_a_call_that_takes_longer_than_its_deadline_is_refused_and_says_so(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, allocate_deadline_seconds="0.1") as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            code, text = await plugin.refusal(*[ids(FIRST_TAG, n % 15) for n in range(40_000)])
            [answer] = await plugin.allocate(ids(FIRST_TAG, 0))

    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "no answer within 0.1 s" in text
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == FIRST
