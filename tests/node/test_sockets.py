"""The sockets as files: ours deleted, the folder absent, linked, made anew; events that lie."""

import asyncio
import shutil
from pathlib import Path

import pytest

from gpushare_plugin.app.node import NodeDaemon
from gpushare_plugin.node import registration
from gpushare_plugin.sim.kubelet import Faults, Phase, SimKubelet
from tests.node.event_log import EventLog
from tests.node.nodes import (
    RESOURCE,
    Machine,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
    pod,
)


async def test_b06a_our_own_socket_deleted_is_made_anew_and_registered(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()
        deleted = node.socket()

        deleted.unlink()
        await node.ready(registrations=2)

        assert node.socket() != deleted
        assert len(node.kubelet.state().open_streams(RESOURCE)) == 1
        ended = await node.metric("gpushare_plugin_lives_ended_total", reason="own_socket_gone")
    assert ended == 1


async def test_b06a_our_own_socket_replaced_by_another_file_is_noticed(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        node.socket().unlink()
        (node.plugin_dir / "x").touch()
        await log.said("plugin_life_ended", reason="own_socket_gone")

        await node.ready(registrations=2)


async def test_b06b_a_stream_that_ends_with_no_new_kubelet_socket_is_registered_anew(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        await node.kubelet.drop_stream(RESOURCE)
        await log.said("plugin_life_ended", reason="streams_ended")

        await node.ready(registrations=2)
        status = await node.kubelet.admit(pod("a", 4))
    assert status.phase is Phase.RUNNING


async def test_b06b_a_kubelet_that_never_opens_a_stream_is_registered_with_again(
    short_path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "FIRST_STREAM_SECONDS", 0.3)
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await node.kubelet.set_faults(Faults(withhold_list_and_watch=True))
        await node.kubelet.start()
        await log.said("registered")
        await node.kubelet.set_faults(Faults())

        await log.said("plugin_life_ended", reason="no_stream")

        await node.ready(registrations=2)


async def test_b03_events_of_the_same_socket_and_of_others_change_nothing(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        # Armed before the socket is there: its creation is told after we have registered.
        await log.said("plugin_folder_unavailable")
        await node.kubelet.start()
        await node.ready()

        for n in range(20):
            other = node.plugin_dir / f"other-{n}.sock"
            other.touch()
            other.unlink()
        node.gpus.xid(0, 79)
        await node.ready(units=15)

        [stream] = node.kubelet.state().streams
        assert node.registrations() == 1
    assert stream.messages == 2


async def test_b02_a_new_kubelet_socket_is_told_by_the_watch_long_before_the_tick(
    short_path: Path, log: EventLog
) -> None:
    # Another file by its change time, while the stream stays open: only the watch can tell.
    async with node_in(short_path, log, tick_seconds="60") as node:
        await node.ready()

        socket = node.plugin_dir / "kubelet.sock"
        socket.rename(node.folder / "moved.sock").rename(socket)

        await log.said("plugin_life_ended", reason="kubelet_restarted")
        await node.ready(registrations=2)


async def test_b02_without_any_file_event_the_tick_finds_a_new_kubelet(
    short_path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a host that has no inotify watches left.
    monkeypatch.setattr("watchdog.observers.inotify.InotifyObserver.start", _no_watches_left)
    async with node_in(short_path, log) as node:
        await node.ready()
        await log.said("watch_unavailable")

        await node.kubelet.restart()
        await node.ready(registrations=2)
        node.socket().unlink()
        await node.ready(registrations=3)


def _no_watches_left(_: object) -> None:
    raise OSError(28, "inotify watch limit reached")


async def test_b15a_a_folder_that_is_made_later_is_waited_for_with_a_clear_message(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        line = await log.said("plugin_folder_unavailable")

        await node.kubelet.start()
        await node.ready()

    assert "expected the kubelet's plugin folder, writable" in line["error"]
    assert len(log.of("plugin_folder_unavailable")) == 1


async def test_b15a_a_folder_that_is_removed_and_made_anew_is_found_again(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        # Nothing is being written there any more.
        await log.said("card_record_written")
        await node.kubelet.stop()
        shutil.rmtree(node.plugin_dir)
        await log.said("not_registered")

        await node.kubelet.start()

        await node.ready(registrations=2)


@pytest.mark.parametrize("linked", ["plugins", "."])
async def test_b15b_a_folder_behind_a_symbolic_link_is_watched_where_it_is(
    short_path: Path, log: EventLog, linked: str
) -> None:
    real, link = short_path / "real", short_path / "link"
    (real / "plugins").mkdir(parents=True)
    link.symlink_to(real / linked)
    folder = link if linked == "plugins" else link / "plugins"
    config = config_in(short_path, plugin_dir=str(folder), tick_seconds="60")
    settings = kubelet_settings(real, dial_seconds=10.0)
    async with SimKubelet(settings) as kubelet, daemon_running(config):
        await kubelet.allocatable(RESOURCE, equals=30)

        await kubelet.restart(gap_seconds=0.1)
        await kubelet.registered(RESOURCE, count=2)
        await kubelet.allocatable(RESOURCE, equals=30)

        [first, second] = kubelet.state().registrations
    assert "/" not in first.endpoint + second.endpoint


async def test_a_second_instance_waits_until_the_first_has_ended(
    short_path: Path, log: EventLog
) -> None:
    config = config_in(short_path)
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        async with daemon_running(config):
            await kubelet.allocatable(RESOURCE, equals=30)
            lock = config.plugin_dir / "gpushare-aliyun.com_gpu-mem.lock"
            assert lock.exists()
        # The lock file stays; nobody holds it, so the next one takes it at once.
        async with daemon_running(config):
            await kubelet.registered(RESOURCE, count=2)
            await kubelet.allocatable(RESOURCE, equals=30)

    assert not log.of("plugin_folder_unavailable")


async def test_b18_a_proxy_in_the_environment_is_not_for_sockets(
    short_path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:3128")
        monkeypatch.setenv(name.upper(), "http://192.0.2.1:3128")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with node_in(short_path, log) as node:
        await node.ready()

        await node.kubelet.admit(pod("a", 4))

    assert [line["pod"] for line in log.of("allocated")] == ["default/a"]


async def test_a_socket_path_that_is_too_long_is_said_once_and_the_daemon_stays_up(
    short_path: Path, log: EventLog
) -> None:
    folder = short_path / ("x" * 100)
    folder.mkdir()
    (folder / "kubelet.sock").touch()
    config = config_in(short_path, plugin_dir=str(folder))
    daemon = NodeDaemon(config)
    running = asyncio.create_task(daemon.run(), name="the daemon under test")
    try:
        line = await log.said("not_registered")
        await asyncio.sleep(1)
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert "at most 107 are possible" in line["error"]
    assert "--plugin-dir" in line["error"]
    assert len(log.of("not_registered")) == 1


async def test_a_folder_that_may_not_be_written_is_waited_for(
    short_path: Path, log: EventLog
) -> None:
    # Not even root may make a file there.
    async with daemon_running(config_in(short_path, plugin_dir="/sys/kernel")) as running:
        line = await log.said("plugin_folder_unavailable")
        assert not running.done()

    assert line["error"].startswith("/sys/kernel/gpushare-aliyun.com_gpu-mem.lock cannot be made: ")
    assert "expected the kubelet's plugin folder, writable" in line["error"]


async def test_a_file_where_the_folder_should_be_is_waited_for(
    short_path: Path, log: EventLog
) -> None:
    (short_path / "plugins").touch()
    async with daemon_running(config_in(short_path)) as running:
        line = await log.said("plugin_folder_unavailable")
        assert not running.done()

    assert "Not a directory" in line["error"]
