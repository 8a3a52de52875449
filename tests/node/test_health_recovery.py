"""Every way into Unhealthy has its way out."""

import asyncio
from pathlib import Path

import pytest

from gpushare_plugin.errors import NvmlError
from gpushare_plugin.ports import Probe
from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import Phase, SimKubelet
from tests.node.event_log import EventLog
from tests.node.nodes import (
    FIRST,
    RESOURCE,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
    pod,
)
from tests.node.scripted_gpus import ScriptedGpus
from tests.node.waiting import eventually
from tests.node.watched import watching

UNKNOWN_ERROR = 999
OFTEN = {"probe_seconds": "0.05"}
"""Three good probes take 0.1 s then."""


async def test_b32_b33_a_lost_card_is_healthy_again_after_it_came_back(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **OFTEN) as node:
        await node.ready()

        node.gpus.lost(1)
        await node.kubelet.allocatable(RESOURCE, equals=15)
        assert node.resource.capacity == 30
        node.gpus.back(1)
        await node.kubelet.allocatable(RESOURCE, equals=30)

    assert [line["card"] for line in log.of("card_unhealthy")] == ["1"]
    assert [line["card"] for line in log.of("card_healthy")] == ["1"]


async def test_b33_a_fatal_xid_outlasts_good_probes_and_ends_with_a_reset(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **OFTEN) as node:
        await node.ready()
        node.gpus.xid(0, 79)
        node.gpus.fail("nvmlDeviceGetMemoryInfo", UNKNOWN_ERROR, gpu=1)
        await node.kubelet.allocatable(RESOURCE, equals=0)

        # By the time that the other card is healed, this one had as many good probes.
        node.gpus.heal("nvmlDeviceGetMemoryInfo")
        await node.kubelet.allocatable(RESOURCE, equals=15)
        assert not log.of("card_healthy", card="0")

        node.gpus.lost(0)
        await log.said("gpu_left_out")
        node.gpus.back(0)
        await node.kubelet.allocatable(RESOURCE, equals=30)


async def test_b33_a_fatal_xid_ends_with_a_new_start_if_the_card_answers(
    short_path: Path, log: EventLog
) -> None:
    gpus = EventsFile(short_path / "events")
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        async with daemon_running(config_in(short_path)):
            await kubelet.allocatable(RESOURCE, equals=30)
            gpus.xid(0, 79)
            await kubelet.allocatable(RESOURCE, equals=15)

        # Another events file: an XID is an event, not a state that a new start would see.
        second = config_in(short_path, simulate_events=str(short_path / "events-2"))
        async with daemon_running(second):
            await kubelet.allocatable(RESOURCE, equals=30)


async def test_b33_a_card_that_is_still_lost_at_a_new_start_is_not_taken_for_healthy(
    short_path: Path, log: EventLog
) -> None:
    gpus = EventsFile(short_path / "events")
    gpus.fail("nvmlDeviceGetHandleByUUID", 15, gpu=1)
    async with node_in(short_path, log, **OFTEN) as node:
        await node.ready(units=15)
        assert node.resource.capacity == 30
        [first] = [s.messages for s in node.kubelet.state().streams]
        assert first == 1

        gpus.heal("nvmlDeviceGetHandleByUUID")
        await node.kubelet.allocatable(RESOURCE, equals=30)


async def test_uncorrected_errors_that_grow_make_a_card_unhealthy_until_they_stay(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **OFTEN) as node:
        await node.ready()

        node.gpus.ecc(0, 7)
        line = await log.said("card_unhealthy", card="0")
        await log.said("card_healthy", card="0")
        await node.kubelet.allocatable(RESOURCE, equals=30)

    assert line["reason"] == "uncorrected ECC errors grew from 0 to 7"


async def test_errors_from_before_the_start_are_not_held_against_a_card(
    short_path: Path, log: EventLog
) -> None:
    EventsFile(short_path / "events").ecc(0, 7)
    async with node_in(short_path, log, **OFTEN) as node:
        await node.ready()
        node.gpus.lost(1)
        await node.kubelet.allocatable(RESOURCE, equals=15)

    assert not log.of("card_unhealthy", card="0")


class Flapping(ScriptedGpus):
    """One card, of which every third probe is bad, the first among them."""

    def probe(self, uuid: str) -> Probe:
        if self.calls.count("probe") % 3 == 0:
            self.fail("probe", lambda: NvmlError("it flaps"))
        else:
            self.heal("probe")
        return super().probe(uuid)


async def test_a_card_that_flaps_needs_its_good_probes_in_a_row(log: EventLog) -> None:
    gpus = Flapping(FIRST)
    async with watching(gpus, probe_seconds=0.01):
        await eventually(lambda: gpus.calls.count("probe") >= 15)

    assert len(log.of("card_unhealthy")) == 1
    assert not log.of("card_healthy")


async def test_a_pod_on_an_unhealthy_card_runs_on_and_new_ones_go_to_the_other(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        await node.kubelet.admit(pod("a", 4))

        node.gpus.xid(0, 79)
        await node.kubelet.allocatable(RESOURCE, equals=15)
        status = await node.kubelet.admit(pod("b", 4))

        assert node.kubelet.state().pod("uid-a").phase is Phase.RUNNING
    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


async def test_each_change_of_a_state_is_one_line_one_count_and_one_message(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0", **OFTEN) as node:
        await node.ready()
        node.gpus.lost(1)
        await node.kubelet.allocatable(RESOURCE, equals=15)
        node.gpus.back(1)
        await node.kubelet.allocatable(RESOURCE, equals=30)

        name = "gpushare_health_changes_total"
        counts = [await node.metric(name, state=state) for state in ("Unhealthy", "Healthy")]
        assert await node.metric("gpushare_card_healthy", index="1") == 1
        [stream] = node.kubelet.state().streams

    assert counts == [1, 1]
    assert stream.messages == 3
    assert (len(log.of("card_unhealthy")), len(log.of("card_healthy"))) == (1, 1)


async def test_a_node_that_is_bad_all_over_tells_the_kubelet_so_and_stays_up(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **OFTEN) as node:
        await node.ready()

        node.gpus.lost(0)
        node.gpus.lost(1)
        await node.kubelet.allocatable(RESOURCE, equals=0)
        status = await node.kubelet.admit(pod("a", 1))

        assert node.resource.capacity == 30
    assert "no healthy devices present" in status.message


@pytest.mark.parametrize("count", [1, 3])
async def test_cards_that_come_later_are_listed_and_their_events_are_heard(
    short_path: Path, log: EventLog, count: int
) -> None:
    async with node_in(short_path, log, probe_seconds="0.3") as node:
        await node.ready()
        uuids = [f"GPU-{n}ccccccc-0000-0000-0000-000000000000" for n in range(count)]
        for uuid in uuids:
            node.gpus.add(uuid=uuid, name="Tesla T4", total_mib=2048)
        await node.kubelet.allocatable(RESOURCE, equals=30 + 2 * count)

        # A card is listed a moment before its events are heard, so it tells them again.
        async with asyncio.timeout(5):
            while node.resource.allocatable > 30:
                for uuid in uuids:
                    node.gpus.xid(uuid, 79)
                await asyncio.sleep(0.05)

    assert {line["uuid"] for line in log.of("card_unhealthy")} == set(uuids)
