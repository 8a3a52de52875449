"""What an XID does to a card, row by row of the health table, from the driver to the kubelet."""

from pathlib import Path

import pytest

from gpushare_plugin.core.health import APPLICATION_XIDS, NOTED_XIDS, RESET_XIDS
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, RESOURCE, SECOND, Node, node_in, profile_in

NEVER = "3600"
"""Between two probes: so what a test sees was no probe on time."""
GPU_IS_LOST, UNKNOWN_ERROR = 15, 999
OTHER_XIDS = (1, 62, 999, 0, 2**32 - 1)


async def _stays_whole(node: Node) -> None:
    """A change that is made after the event is the next one that the kubelet is told."""
    assert node.resource.allocatable == 30
    node.gpus.xid(1, 79)
    await node.kubelet.allocatable(RESOURCE, equals=15)
    [stream] = node.kubelet.state().streams
    assert stream.messages == 2


@pytest.mark.parametrize("xid", sorted(APPLICATION_XIDS | NOTED_XIDS))
async def test_b33_the_applications_faults_and_the_noted_ones_are_counted_only(
    short_path: Path, log: EventLog, xid: int
) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER, status_address="127.0.0.1:0") as node:
        await node.ready()
        node.gpus.fail("nvmlDeviceGetMemoryInfo", GPU_IS_LOST, gpu=0)

        node.gpus.xid(0, xid)
        counted_only = xid in APPLICATION_XIDS
        await log.said("xid_counted" if counted_only else "gpu_event", xid=str(xid))

        await _stays_whole(node)
        assert await node.metric("gpushare_xids_total", uuid=FIRST, xid=str(xid)) == 1


@pytest.mark.parametrize("xid", sorted(RESET_XIDS))
async def test_the_fatal_ones_make_their_card_unhealthy_and_no_other(
    short_path: Path, log: EventLog, xid: int
) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER) as node:
        await node.ready()

        node.gpus.xid(1, xid)
        await node.kubelet.allocatable(RESOURCE, equals=15)

    [line] = log.of("card_unhealthy")
    assert (line["card"], line["uuid"], line["reason"]) == ("1", SECOND, f"XID {xid}")


@pytest.mark.parametrize("xid", OTHER_XIDS)
async def test_b35_any_other_xid_is_counted_where_the_card_answers_as_it_should(
    short_path: Path, log: EventLog, xid: int
) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER) as node:
        await node.ready()

        node.gpus.xid(0, xid)
        await log.said("gpu_event", reaction="probe", xid=str(xid))

        await _stays_whole(node)


@pytest.mark.parametrize("xid", OTHER_XIDS)
async def test_b35_any_other_xid_is_believed_where_the_card_does_not_answer(
    short_path: Path, log: EventLog, xid: int
) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER) as node:
        await node.ready()
        node.gpus.fail("nvmlDeviceGetMemoryInfo", UNKNOWN_ERROR, gpu=0)

        node.gpus.xid(0, xid)
        await node.kubelet.allocatable(RESOURCE, equals=15)

    [line] = log.of("card_unhealthy")
    assert line["card"] == "0"


@pytest.mark.parametrize("xid", [1, 79])
async def test_an_event_without_a_card_asks_every_card_and_blames_only_the_bad_one(
    short_path: Path, log: EventLog, xid: int
) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER) as node:
        await node.ready()
        node.gpus.fail("nvmlDeviceGetMemoryInfo", UNKNOWN_ERROR, gpu=1)

        node.gpus.xid(None, xid)
        await node.kubelet.allocatable(RESOURCE, equals=15)

    [event] = log.of("gpu_event")
    assert (event["uuid"], event["cards"], event["reaction"]) == ("unknown", "0,1", "probe")
    [line] = log.of("card_unhealthy")
    assert line["card"] == "1"


async def test_ignored_xids_are_counted_only(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER, ignore_xids="74,95") as node:
        await node.ready()

        node.gpus.xid(0, 74)
        await log.said("xid_counted")

        await _stays_whole(node)


async def test_with_a_list_of_the_only_xids_no_other_is_acted_on(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, probe_seconds=NEVER, only_xids="79") as node:
        await node.ready()

        node.gpus.xid(0, 95)
        await log.said("xid_counted")

        await _stays_whole(node)


async def test_with_health_off_no_event_is_heard_and_no_card_asked(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, health="off", probe_seconds="0.05") as node:
        await node.ready()
        node.gpus.fail("nvmlDeviceGetMemoryInfo", UNKNOWN_ERROR, gpu=0)
        node.gpus.xid(1, 79)

        # The cards are still looked at, so that new ones are found.
        uuid = "GPU-cccccccc-0000-0000-0000-000000000000"
        node.gpus.add(uuid=uuid, name="Tesla T4", total_mib=2048)
        await node.kubelet.allocatable(RESOURCE, equals=32)

    assert not log.of("gpu_event")
    assert not log.of("card_unhealthy")


async def test_an_event_of_a_mig_instance_is_that_instances_alone(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, simulate="mig", mig="shared", probe_seconds=NEVER) as node:
        await node.ready(units=210)

        node.gpus.xid(0, 79, gi=3, ci=0)
        await node.kubelet.allocatable(RESOURCE, equals=210 - 19)

    [line] = log.of("card_unhealthy")
    assert line["uuid"] == "MIG-530af3c0-cb81-485d-9dd1-238200465544"


@pytest.mark.parametrize("instance", [{}, {"gi": 77, "ci": 0}])
async def test_an_event_of_no_known_instance_is_the_whole_gpus(
    short_path: Path, log: EventLog, instance: dict[str, int]
) -> None:
    async with node_in(short_path, log, simulate="mig", mig="shared", probe_seconds=NEVER) as node:
        await node.ready(units=210)

        node.gpus.xid(0, 79, **instance)
        await node.kubelet.allocatable(RESOURCE, equals=210 - (39 + 19 + 9))


async def test_b36_b48_a_card_that_tells_no_events_is_allocatable_and_shown_as_unwatched(
    short_path: Path, log: EventLog
) -> None:
    profile = profile_in(
        short_path,
        f'gpu uuid={FIRST} name="A40-4Q" total_mib=4096 events=unsupported ecc=unsupported'
        " virtualization=vgpu\n"
        f'gpu uuid={SECOND} name="Tesla T4" total_mib=4096\n',
    )
    async with node_in(short_path, log, simulate=profile, status_address="127.0.0.1:0") as node:
        await node.ready(units=8)
        await log.said("card_unwatched", card="0")

        assert await node.metric("gpushare_card_watched", index="0") == 0
        assert await node.metric("gpushare_card_watched", index="1") == 1
        assert await node.metric("gpushare_card_healthy", index="0") == 1
        assert await node.page("/readyz") == (200, "ok\n")
    assert not log.of("card_unhealthy")


async def test_b36_a_card_that_tells_no_events_is_known_by_its_probes(
    short_path: Path, log: EventLog
) -> None:
    cards = "".join(
        f'gpu uuid={uuid} name="Tesla T4" total_mib=4096 events={events}\n'
        for uuid, events in ((FIRST, "unsupported"), (SECOND, "unknown"))
    )
    async with node_in(short_path, log, simulate=profile_in(short_path, cards)) as node:
        await node.ready(units=8)

        node.gpus.lost(1)
        await node.kubelet.allocatable(RESOURCE, equals=4)

    assert [line["card"] for line in log.of("card_unhealthy")] == ["1"]
