"""Whole processes over restarts: a card that is missing keeps its place until it is forgotten."""

import json
import signal
from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import Phase
from tests.e2e.processes import RESOURCE, daemon, kubelet, node_arguments, pod, ready

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

FIRST = "GPU-6f0c3a52-8d1e-4b7a-9c35-2e4f81a7d601"
SECOND = "GPU-b81d94e7-3c60-4f2b-8a19-d75e02c6f4b2"
BAD_CONFIGURATION = 2


def machine(folder: Path, *uuids: str) -> list[str]:
    """The daemon's command line on a machine with these cards."""
    lines = [f'gpu uuid={uuid} name="Tesla T4" total_mib=15360\n' for uuid in uuids]
    profile = folder / f"{len(uuids)}.profile"
    profile.write_text("system driver=570.124.06 cuda=12080\n" + "".join(lines), encoding="utf-8")
    return node_arguments(folder, "--simulate", str(profile))


def write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


def places_in(path: str) -> list[tuple[int, str]]:
    """The indexes and UUIDs of a card record."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    return [(each["index"], each["uuid"]) for each in content["gpus"]]


async def test_a_killed_daemon_that_comes_back_without_a_card_lists_the_same_ids(
    short_path: Path,
) -> None:
    async with kubelet(short_path) as driven:
        async with daemon(machine(short_path, FIRST, SECOND)) as node:
            await ready(driven)
            written = await node.said("card_record_written")
            devices = set((await driven.state()).resources[RESOURCE].health)
            node.send(signal.SIGKILL)
            await node.exit_code()
        # What a kill in the middle of a write leaves.
        write(f"{written['path']}.new", '{"v":1,"no')

        async with daemon(machine(short_path, SECOND)) as node:
            await ready(driven, units=15, registrations=2)
            lost = await node.said("card_unhealthy")
            state = (await driven.state()).resources[RESOURCE]
            status = await driven.admit(pod("a", 15))

    assert (lost["card"], lost["reason"]) == ("0", "lost: NVML does not show it")
    assert set(state.health) == devices
    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


async def test_a_card_that_was_taken_out_is_forgotten_once_the_node_is_drained(
    short_path: Path,
) -> None:
    async with kubelet(short_path) as driven:
        async with daemon(machine(short_path, FIRST, SECOND)) as node:
            await ready(driven)
            await node.said("card_record_written")

        arguments = [*machine(short_path, SECOND), "--forget-cards", FIRST]
        async with daemon(machine(short_path, SECOND)):
            await ready(driven, units=15, registrations=2)
            holder = await driven.admit(pod("holder", 4))
        async with daemon(arguments) as node:
            line = await node.said("card_not_forgotten")
            await ready(driven, units=15, registrations=3)
            await driven.delete_pod("uid-holder")
        async with daemon(arguments) as node:
            await node.said("card_forgotten", uuid=FIRST)
            written = await node.said("card_record_written")
            places = places_in(written["path"])

    assert holder.phase is Phase.RUNNING
    assert "default/holder" in line["reason"]
    assert places == [(0, SECOND)]


async def test_another_unit_ends_the_daemon_while_pods_hold_the_old_one_without_any_cluster(
    short_path: Path,
) -> None:
    async with kubelet(short_path) as driven:
        async with daemon(node_arguments(short_path)) as node:
            await ready(driven)
            await node.said("card_record_written")
            await driven.admit(pod("holder", 4))

        async with daemon(node_arguments(short_path, "--memory-unit", "512MiB")) as node:
            code = await node.exit_code()

    assert code == BAD_CONFIGURATION
    [line] = [each for each in node.lines if " error " in each]
    assert "pods hold such units (default/holder); drain the node first" in line
