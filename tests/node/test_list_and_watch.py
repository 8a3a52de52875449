"""ListAndWatch: the full list first, one message for each change, streams on their own."""

from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import SimKubelet
from tests.node.event_log import EventLog
from tests.node.nodes import (
    FIRST_TAG,
    RESOURCE,
    SECOND_TAG,
    Node,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
    profile_in,
)
from tests.node.plugin_client import health_of, plugin_at, read

HEALTHY = {FIRST_TAG: {"Healthy"}, SECOND_TAG: {"Healthy"}}


async def _socket(node: Node) -> Path:
    await node.ready()
    return node.socket()


async def test_the_first_message_is_the_full_list(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node, plugin_at(await _socket(node)) as plugin:
        message = await read(plugin.list_and_watch())

    wanted = [f"{tag}-{n}" for tag in (FIRST_TAG, SECOND_TAG) for n in range(15)]
    assert [device.ID for device in message.devices] == wanted
    assert health_of(message) == HEALTHY
    assert not any(device.HasField("topology") for device in message.devices)


async def test_numa_nodes_are_named_where_they_are_asked_for(
    short_path: Path, log: EventLog
) -> None:
    async with (
        node_in(short_path, log, numa_topology="on") as node,
        plugin_at(await _socket(node)) as plugin,
    ):
        message = await read(plugin.list_and_watch())

    nodes = {d.ID.partition("-")[0]: d.topology.nodes[0].ID for d in message.devices}
    assert nodes == {FIRST_TAG: 0, SECOND_TAG: 1}


async def test_many_streams_each_begin_with_the_full_list_and_hear_every_change(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node, plugin_at(await _socket(node)) as plugin:
        streams = [plugin.list_and_watch() for _ in range(20)]
        first = [await read(stream) for stream in streams]
        node.gpus.xid(1, 79)
        second = [await read(stream) for stream in streams]

    assert [len(message.devices) for message in first] == [30] * 20
    bad = {FIRST_TAG: {"Healthy"}, SECOND_TAG: {"Unhealthy"}}
    assert [health_of(message) for message in second] == [bad] * 20


async def test_one_change_is_one_message_of_all_devices(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        node.gpus.xid(0, 79)
        await node.ready(units=15)
        node.gpus.xid(1, 79)
        await node.ready(units=0)

        [stream] = node.kubelet.state().streams
    assert stream.messages == 3


async def test_what_changes_nothing_sends_nothing(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        for xid in (13, 31, 63, 94):
            node.gpus.xid(0, xid)
        await log.said("xid_counted", times=2)
        await log.said("gpu_event", times=2)
        node.gpus.xid(1, 79)
        await node.ready(units=15)

        [stream] = node.kubelet.state().streams
    assert stream.messages == 2


async def test_a_stream_that_its_client_cancels_ends_and_the_others_go_on(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node, plugin_at(await _socket(node)) as plugin:
        cancelled, kept = plugin.list_and_watch(), plugin.list_and_watch()
        await read(cancelled)
        await read(kept)

        cancelled.cancel()
        ended = await log.said("stream_ended")
        node.gpus.xid(0, 79)
        message = await read(kept)

        assert node.registrations() == 1
    assert ended["streams"] == "2"
    assert health_of(message)[FIRST_TAG] == {"Unhealthy"}


async def test_a_client_that_never_reads_holds_nobody_up(short_path: Path, log: EventLog) -> None:
    # In MiB a list is 700 KB, so the flow control of an unread stream closes at once.
    async with node_in(short_path, log, memory_unit="MiB") as node:
        await node.ready(units=30720)
        async with plugin_at(node.socket()) as plugin:
            unread = [plugin.list_and_watch() for _ in range(3)]
            await log.said("stream_opened", times=4)

            node.gpus.xid(0, 79)
            await node.ready(units=15360)
            assert len(await plugin.preferred(available=[f"{SECOND_TAG}-1"], size=1)) == 1

            for stream in unread:
                stream.cancel()


async def test_b08_what_changes_while_a_message_is_on_its_way_is_told_after_it(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, memory_unit="MiB") as node:
        await node.ready(units=30720)
        async with plugin_at(node.socket()) as plugin:
            stream = plugin.list_and_watch()
            await log.said("list_sent", times=2)
            node.gpus.xid(0, 79)
            await node.ready(units=15360)

            first, second = await read(stream), await read(stream)

    assert health_of(first) == HEALTHY
    assert health_of(second) == {FIRST_TAG: {"Unhealthy"}, SECOND_TAG: {"Healthy"}}


async def test_b04_a_daemon_that_starts_anew_with_the_same_cards_sends_all_of_them(
    short_path: Path, log: EventLog
) -> None:
    config = config_in(short_path)
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        async with daemon_running(config):
            await kubelet.allocatable(RESOURCE, equals=30)
        await kubelet.allocatable(RESOURCE, equals=0)

        async with daemon_running(config):
            await kubelet.registered(RESOURCE, count=2)
            await kubelet.allocatable(RESOURCE, equals=30)

            stream = kubelet.state().streams[-1]
    assert stream.messages == 1


async def test_device_ids_are_the_same_after_a_restart_with_the_cards_in_another_order(
    short_path: Path, log: EventLog
) -> None:
    cards = [
        f'gpu uuid=GPU-{tag}-0000-0000-0000-000000000000 name="Tesla T4" total_mib=4096 minor={n}\n'
        for n, tag in enumerate(("aaaaaaaa", "bbbbbbbb"))
    ]
    seen = []
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        for count, order in enumerate((cards, cards[::-1]), start=1):
            config = config_in(short_path, simulate=profile_in(short_path, "".join(order)))
            async with daemon_running(config):
                await kubelet.registered(RESOURCE, count=count)
                await kubelet.allocatable(RESOURCE, equals=8)
                seen.append(set(kubelet.state().resources[RESOURCE].health))

    assert seen[0] == seen[1]


@pytest.mark.parametrize(("units_from", "units"), [("total", 30), ("usable", 28)])
async def test_units_are_taken_from_all_of_the_memory_or_from_the_usable_part(
    short_path: Path, log: EventLog, units_from: str, units: int
) -> None:
    async with node_in(short_path, log, units_from=units_from) as node:
        await node.ready(units=units)
