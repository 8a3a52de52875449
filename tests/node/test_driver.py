"""The driver over time: absent, then there; upgraded under us; broken event sets."""

from pathlib import Path

import pytest

from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import Phase
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, RESOURCE, SECOND, node_in, pod, profile_in

DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH, UNKNOWN_ERROR = 9, 12, 18, 999
PAGES = {"status_address": "127.0.0.1:0"}


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (DRIVER_NOT_LOADED, "load it (modprobe nvidia)"),
        (LIBRARY_NOT_FOUND, "install the NVIDIA driver"),
        (VERSION_MISMATCH, "reload the driver or reboot the node"),
        (UNKNOWN_ERROR, "connecting to the driver"),
    ],
)
async def test_b23_b43_without_a_driver_the_daemon_waits_and_says_cause_and_cure(
    short_path: Path, log: EventLog, error: int, part: str
) -> None:
    gpus = EventsFile(short_path / "events")
    gpus.break_init(error)
    async with node_in(short_path, log, **PAGES) as node:
        line = await log.said("nvml_unavailable")

        status, text = await node.page("/readyz")
        assert status == 503
        assert part in text
        assert await node.page("/healthz") == (200, "ok\n")
        assert await node.metric("gpushare_nvml_up") == 0
        assert node.registrations() == 0

        gpus.mend_init()
        await node.ready()
        assert await node.page("/readyz") == (200, "ok\n")

    assert part in line["error"]
    assert len(log.of("nvml_unavailable")) == 1


async def test_b23_a_node_without_cards_registers_nothing_until_there_are_some(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, simulate=profile_in(short_path, "")) as node:
        line = await log.said("nvml_unavailable")
        assert node.registrations() == 0

        node.gpus.add(uuid=FIRST, name="Tesla T4", total_mib=4096)
        node.gpus.add(uuid=SECOND, name="Tesla T4", total_mib=2048)
        await node.kubelet.capacity(RESOURCE, equals=6)

    assert line["error"] == "no GPU of this node can be shared: there is none"


async def test_b26_a_card_without_a_memory_size_is_left_out_and_the_others_are_served(
    short_path: Path, log: EventLog
) -> None:
    profile = profile_in(
        short_path,
        f'gpu uuid={FIRST} name="NVIDIA GB10" total_mib=1 memory=unsupported\n'
        f'gpu uuid={SECOND} name="Tesla T4" total_mib=4096\n',
    )
    async with node_in(short_path, log, simulate=profile, **PAGES) as node:
        await node.ready(units=4)

        assert await node.metric("gpushare_gpus_left_out") == 1
        assert await node.page("/readyz") == (200, "ok\n")

    [line] = log.of("gpu_left_out")
    assert (line["gpu"], "unified memory" in line["reason"]) == (FIRST, True)


async def test_b28_b29_a_name_that_is_no_text_is_unknown_and_the_card_is_served(
    short_path: Path, log: EventLog
) -> None:
    profile = profile_in(short_path, f"gpu uuid={FIRST} bytes_name=f8f8 total_mib=4096\n")
    async with node_in(short_path, log, simulate=profile) as node:
        await node.ready(units=4)

    assert [line["model"] for line in log.of("card_shared")] == ["unknown"]


@pytest.mark.parametrize("reverse", [False, True])
async def test_b45_each_card_has_the_units_of_its_own_memory(
    short_path: Path, log: EventLog, *, reverse: bool
) -> None:
    sizes = {"aaaaaaaa": 2002, "bbbbbbbb": 11175, "cccccccc": 16130}
    order = sorted(sizes, reverse=reverse)
    profile = "".join(
        f'gpu uuid=GPU-{tag}-0000-0000-0000-000000000000 name="x" total_mib={sizes[tag]}\n'
        for tag in order
    )
    async with node_in(short_path, log, simulate=profile_in(short_path, profile)) as node:
        await node.ready(units=1 + 10 + 15)

        status = await node.kubelet.admit(pod("a", 10))

    assert status.container("c0").env["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-bbbbbbbb")
    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_DEV"] == "10"


async def test_b43_a_driver_upgraded_under_us_takes_no_new_pod_until_it_is_well(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, probe_seconds="0.05", **PAGES) as node:
        await node.ready()
        await node.kubelet.admit(pod("before", 4))

        node.gpus.break_init(VERSION_MISMATCH)
        await node.kubelet.allocatable(RESOURCE, equals=0)
        await log.said("nvml_unavailable")
        _, text = await node.page("/readyz")
        refused = await node.kubelet.admit(pod("during", 1))

        assert node.kubelet.state().pod("uid-before").phase is Phase.RUNNING
        node.gpus.mend_init()
        await node.kubelet.allocatable(RESOURCE, equals=30)
        status = await node.kubelet.admit(pod("after", 1))

    assert (refused.phase, status.phase) == (Phase.FAILED, Phase.RUNNING)
    assert "reload the driver or reboot the node" in text
    assert all("does not fit" in line["reason"] for line in log.of("card_unhealthy"))
    assert len(log.of("nvml_unavailable")) == 1


async def test_with_health_off_a_driver_that_goes_and_comes_leaves_no_card_unhealthy(
    short_path: Path, log: EventLog
) -> None:
    # Without probes there would be no way back.
    async with node_in(short_path, log, probe_seconds="0.05", health="off") as node:
        await node.ready()

        node.gpus.break_init(VERSION_MISMATCH)
        await log.said("nvml_unavailable")
        node.gpus.mend_init()
        await log.said("nvml_answers", times=2)

        assert node.resource.allocatable == 30
    assert not log.of("card_unhealthy")


async def test_b37_a_lost_event_set_is_made_again_and_readyz_says_so_meanwhile(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **PAGES) as node:
        await node.ready()

        node.gpus.break_event_sets(UNKNOWN_ERROR)
        await log.said("event_set_lost")
        status, text = await node.page("/readyz")
        assert (status, "the driver's events are lost" in text) == (503, True)

        node.gpus.mend_event_sets()
        await log.said("event_set_made_again")
        assert await node.page("/readyz") == (200, "ok\n")
        node.gpus.xid(1, 79)
        await node.kubelet.allocatable(RESOURCE, equals=15)
        failures = await node.metric("gpushare_event_set_failures_total")

    assert failures is not None
    assert failures >= 1
    assert len(log.of("event_set_lost")) == 1


async def test_b37_event_sets_that_cannot_be_made_at_the_start_keep_readiness_away(
    short_path: Path, log: EventLog
) -> None:
    gpus = EventsFile(short_path / "events")
    gpus.break_event_sets(UNKNOWN_ERROR)
    async with node_in(short_path, log, **PAGES) as node:
        await node.ready()
        await log.said("event_set_lost")

        status, _ = await node.page("/readyz")
        gpus.mend_event_sets()
        await log.said("event_set_made_again")

        assert status == 503
        assert await node.page("/readyz") == (200, "ok\n")


async def test_mig_instances_that_are_cut_anew_become_cards(
    short_path: Path, log: EventLog
) -> None:
    profile = profile_in(
        short_path, f'gpu uuid={FIRST} name="NVIDIA A100" total_mib=81920 mig=on\n'
    )
    async with node_in(short_path, log, simulate=profile, mig="shared") as node:
        await log.said("nvml_unavailable")

        node.gpus.mig(
            0,
            uuid="MIG-af238647-a922-4249-b9fc-e608c4d3f831",
            total_mib=10240,
            gi=1,
            ci=0,
            profile_name="1g.10gb",
        )
        await node.ready(units=10)
