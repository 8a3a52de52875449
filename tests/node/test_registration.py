"""What the kubelet learns of the plugin, and in which order."""

import re
import socket
from pathlib import Path

from gpushare_plugin.sim.kubelet import Faults
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, Machine, node_in
from tests.node.plugin_client import plugin_at
from tests.node.waiting import eventually


async def test_the_registration_names_version_resource_and_a_bare_endpoint(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        [record] = node.kubelet.state().registrations

    assert (record.version, record.resource) == ("v1beta1", RESOURCE)
    assert re.fullmatch(r"aliyungpushare-[0-9a-f]{8}\.sock", record.endpoint)


async def test_each_start_has_a_socket_of_its_own_name(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        first = node.socket().name

    async with node_in(short_path, log) as node:
        await node.ready()

        assert node.socket().name != first


async def test_b10_the_plugin_answers_while_its_registration_is_under_way(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await node.kubelet.set_faults(Faults(register_hangs=True))
        await node.kubelet.start()
        await eventually(lambda: bool(node.sockets()))

        async with plugin_at(node.socket()) as plugin:
            options = await plugin.options()

        assert options.get_preferred_allocation_available
        assert node.registrations() == 0


async def test_the_options_ask_for_preferred_allocation_and_not_for_pre_start(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        async with plugin_at(node.socket()) as plugin:
            options = await plugin.options()

    assert options.get_preferred_allocation_available
    assert not options.pre_start_required


async def test_an_old_kubelet_finds_the_same_options_in_the_registration(
    short_path: Path, log: EventLog
) -> None:
    old = Machine(kubelet={"options_from_register": True})
    async with node_in(short_path, log, old) as node:
        await node.ready()

        [record] = node.kubelet.state().registrations

    assert record.get_preferred_allocation_available
    assert not record.pre_start_required


async def test_another_resource_name_is_registered_as_it_was_given(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, resource_name="example.com/vram") as node:
        await node.kubelet.allocatable("example.com/vram", equals=30)

        assert set(node.kubelet.state().resources) == {"example.com/vram"}


async def test_a_stop_takes_the_socket_away_and_leaves_only_the_lock_and_the_card_record(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        await log.said("card_record_written")
        of_the_kubelet = {"kubelet.sock", "kubelet_internal_checkpoint"}

    assert {path.name for path in node.plugin_dir.iterdir()} - of_the_kubelet == {
        "gpushare-aliyun.com_gpu-mem.lock",
        "gpushare-aliyun.com_gpu-mem.cards.json",
    }


async def test_sockets_of_earlier_starts_are_removed_and_those_of_others_are_not(
    short_path: Path, log: EventLog
) -> None:
    folder = short_path / "plugins"
    folder.mkdir()
    dead, others = folder / "aliyungpushare-0123abcd.sock", folder / "vendor-0123abcd.sock"
    for path in (dead, others):
        _dead_socket(path)

    async with node_in(short_path, log, Machine(kubelet_runs=False)):
        await log.said("dead_socket_removed", path=str(dead))

        assert not dead.exists()
        assert others.exists()


def _dead_socket(path: Path) -> None:
    """Leave a socket behind as a killed process does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
