"""The kubelet restarts at every moment of our own life, and the node is whole again after it."""

import asyncio
import threading
from pathlib import Path
from random import Random

import pytest

from gpushare_plugin.sim.kubelet import Faults, Phase
from tests.node.event_log import EventLog
from tests.node.nodes import (
    RESOURCE,
    SECOND_TAG,
    Machine,
    Node,
    config_in,
    daemon_running,
    node_in,
    pod,
)
from tests.node.waiting import eventually


async def _whole_again(node: Node, *, units: int = 30) -> None:
    """The node has all its units, by one stream of a plugin that stands alone."""
    await node.kubelet.allocatable(RESOURCE, equals=units)

    assert len(node.kubelet.state().open_streams(RESOURCE)) == 1
    assert len(node.sockets()) == 1


@pytest.mark.parametrize("gap_seconds", [0.0, 0.3])
@pytest.mark.parametrize("wipe_delay_seconds", [0.0, 0.3])
async def test_b01_a_restarted_kubelet_gets_the_whole_list_again(
    short_path: Path, log: EventLog, gap_seconds: float, wipe_delay_seconds: float
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        await node.kubelet.restart(gap_seconds=gap_seconds, wipe_delay_seconds=wipe_delay_seconds)

        await node.ready(registrations=2)
        await _whole_again(node)


async def test_b01a_a_kubelet_that_restarts_before_our_socket_is_bound(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        # A dead kubelet.sock of the life before; the wiping comes after we have bound ours.
        await node.kubelet.start()
        await node.kubelet.stop()
        starting = asyncio.create_task(node.kubelet.start(wipe_delay_seconds=0.5))
        await log.said("not_registered")

        await starting

        await node.ready()
        await _whole_again(node)


async def test_b01b_a_kubelet_that_restarts_while_it_looks_at_our_registration(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await node.kubelet.set_faults(Faults(register_hangs=True))
        await node.kubelet.start()
        await eventually(lambda: bool(node.sockets()))
        await node.kubelet.set_faults(Faults())

        await node.kubelet.restart(gap_seconds=0.05)

        await node.ready()
        await _whole_again(node)


async def test_b01c_a_kubelet_that_restarts_between_registration_and_first_stream(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await node.kubelet.set_faults(Faults(withhold_list_and_watch=True))
        await node.kubelet.start()
        await log.said("registered")
        assert not node.kubelet.state().streams
        await node.kubelet.set_faults(Faults())

        await node.kubelet.restart()

        await node.ready(registrations=2)
        await _whole_again(node)


async def test_b01d_a_kubelet_that_restarts_while_a_message_is_on_its_way(
    short_path: Path, log: EventLog
) -> None:
    # In MiB a message has 700 KB: the first one is never through when it is sent.
    async with node_in(short_path, log, memory_unit="MiB") as node:
        await log.said("list_sent")

        await node.kubelet.restart()
        await log.said("list_sent", times=2)
        await node.kubelet.restart()

        await node.ready(units=30720, registrations=3)
        await _whole_again(node, units=30720)


async def test_b07_a_stream_that_ends_before_the_new_socket_is_there_and_after_it(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        await node.kubelet.stop()
        await log.said("plugin_life_ended", reason="streams_ended")
        await node.kubelet.start()
        await node.ready(registrations=2)

        # The other way round: kubelet.sock is another file while the stream is still open.
        socket = node.plugin_dir / "kubelet.sock"
        socket.rename(node.folder / "moved.sock").rename(socket)
        await log.said("plugin_life_ended", reason="kubelet_restarted")

        await node.ready(registrations=3)
        await _whole_again(node)


async def test_b07_a_daemon_without_any_stream_stops_at_once(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        await node.kubelet.stop()
        await log.said("stream_ended")

        async with asyncio.timeout(2):
            node.running.cancel()
            await asyncio.gather(node.running, return_exceptions=True)

    assert node.running.cancelled()


async def test_a_kubelet_that_is_absent_at_start_is_waited_for_and_said_once(
    short_path: Path, log: EventLog
) -> None:
    (short_path / "plugins").mkdir()
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        line = await log.said("not_registered")
        await asyncio.sleep(0.7)

        await node.kubelet.start()
        await node.ready()

    assert line["error"].endswith("kubelet.sock is not there: no kubelet yet")
    assert len(log.of("not_registered")) == 1


async def test_pods_keep_their_units_over_a_restart_and_new_ones_get_the_rest(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        held = (await node.kubelet.admit(pod("a", 15))).container("c0")

        await node.kubelet.restart()
        await node.ready(registrations=2)
        status = await node.kubelet.admit(pod("b", 15))

        assert node.kubelet.state().pod("uid-a").phase is Phase.RUNNING
        assert node.kubelet.state().pod("uid-a").container("c0") == held
    [tag] = {device.partition("-")[0] for device in status.container("c0").devices[RESOURCE]}
    assert tag == SECOND_TAG


async def test_what_changed_while_the_kubelet_was_away_is_in_its_first_message(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        await node.kubelet.stop()
        node.gpus.xid(0, 79)
        await log.said("card_unhealthy")

        await node.kubelet.start()
        await node.ready(units=15, registrations=2)

        assert node.kubelet.state().streams[-1].messages == 1


async def test_b08_thirty_restarts_while_health_flips_leave_nothing_behind(
    short_path: Path, log: EventLog
) -> None:
    draw = Random(8)  # noqa: S311  # the same disorder at each run
    async with node_in(short_path, log, probe_seconds="0.05") as node:
        await node.ready()
        flipping = asyncio.create_task(_flip(node), name="flip the health of a card")
        counts: list[tuple[int, int]] = []
        for count in range(2, 32):
            await node.kubelet.restart(gap_seconds=draw.uniform(0, 0.05))
            await node.kubelet.registered(RESOURCE, count=count)
            counts.append((threading.active_count(), _open_files()))
        flipping.cancel()
        await asyncio.gather(flipping, return_exceptions=True)
        node.gpus.back(1)

        await _whole_again(node)
        threads, files = zip(*counts, strict=True)
        assert max(threads[5:]) <= max(threads[:5])
        assert max(files[5:]) <= max(files[:5]) + 8
    assert not log.of("card_unhealthy", card="0")


async def test_b22_starts_and_stops_leave_no_thread_and_no_file_behind(
    short_path: Path, log: EventLog
) -> None:
    config = config_in(short_path)
    config.plugin_dir.mkdir()
    counts: list[tuple[int, int]] = []
    for _ in range(6):
        async with daemon_running(config):
            await log.said("not_registered", times=len(counts) + 1)
        counts.append((threading.active_count(), _open_files()))

    threads, files = zip(*counts, strict=True)
    assert threads[-1] <= threads[1]
    # gRPC gives some back a moment later; four starts that each left one would be more.
    assert files[-1] <= files[1] + 3


async def _flip(node: Node) -> None:
    while True:
        node.gpus.lost(1)
        await asyncio.sleep(0.05)
        node.gpus.back(1)
        await asyncio.sleep(0.05)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
