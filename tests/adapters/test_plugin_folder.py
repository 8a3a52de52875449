"""What other instances of ours have in the plugin folder: their lock, their sockets."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpushare_plugin.adapters.plugin_folder import InstanceLock, remove_dead_sockets
from gpushare_plugin.errors import PluginSocketError

RESOURCE = "aliyun.com/gpu-mem"
PREFIX = "aliyungpushare"

HOLD = """
import sys
from pathlib import Path
from gpushare_plugin.adapters.plugin_folder import InstanceLock
lock = InstanceLock(Path(sys.argv[1]), sys.argv[2])
print(lock.take(), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process_with_the_lock(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), RESOURCE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def live_socket(path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield path


def dead_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    return path


# --------------------------------------------------------------------------- the lock


def test_a_lock_that_nobody_has_is_taken_and_stays_taken(short_path: Path) -> None:
    lock = InstanceLock(short_path, RESOURCE)

    assert lock.take()
    assert lock.take()
    assert not InstanceLock(short_path, RESOURCE).take()
    lock.release()


def test_a_released_lock_can_be_taken_by_another_and_its_file_stays(short_path: Path) -> None:
    first, second = InstanceLock(short_path, RESOURCE), InstanceLock(short_path, RESOURCE)
    first.take()
    first.release()
    first.release()

    assert second.take()
    assert len(list(short_path.iterdir())) == 1
    second.release()


def test_a_lock_held_by_another_process_is_free_once_that_is_dead(short_path: Path) -> None:
    lock = InstanceLock(short_path, RESOURCE)

    with other_process_with_the_lock(short_path) as process:
        while_alive = lock.take()
        process.kill()
        process.wait()
        after_death = lock.take()

    assert (while_alive, after_death) == (False, True)
    lock.release()


def test_another_resource_has_a_lock_of_its_own(short_path: Path) -> None:
    locks = [InstanceLock(short_path, name) for name in (RESOURCE, "aliyun.com/gpu-core")]

    assert all(lock.take() for lock in locks)
    for lock in locks:
        lock.release()


def test_a_lock_does_not_reach_the_processes_that_we_start(short_path: Path) -> None:
    lock = InstanceLock(short_path, RESOURCE)
    lock.take()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        lock.release()

        free = InstanceLock(short_path, RESOURCE)
        assert free.take()
        free.release()
        child.kill()


def test_a_lock_in_no_folder_is_an_error_that_says_what_was_expected(short_path: Path) -> None:
    lock = InstanceLock(short_path / "none", RESOURCE)

    with pytest.raises(PluginSocketError, match=r"No such file.*expected the kubelet's plugin"):
        lock.take()


# ------------------------------------------------------------------------ the sockets


def test_dead_sockets_of_ours_are_removed_and_told(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gpushare_plugin")
    dead = dead_socket(short_path / f"{PREFIX}-0123abcd.sock")

    remove_dead_sockets(short_path, PREFIX)

    assert not dead.exists()
    assert [record.getMessage() for record in caplog.records] == ["dead_socket_removed"]


def test_a_socket_on_which_somebody_answers_is_kept(short_path: Path) -> None:
    with live_socket(short_path / f"{PREFIX}-0123abcd.sock") as live:
        remove_dead_sockets(short_path, PREFIX)

        assert live.exists()


def test_a_socket_whose_server_is_too_busy_to_answer_is_kept(short_path: Path) -> None:
    path = short_path / f"{PREFIX}-0123abcd.sock"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as waiting:
        server.bind(str(path))
        server.listen(0)
        waiting.connect(str(path))

        remove_dead_sockets(short_path, PREFIX)

        assert path.exists()


@pytest.mark.parametrize(
    "name",
    [
        "kubelet.sock",
        "aliyungpushare.sock",
        "nvidia-gpu.sock",
        f"{PREFIX}-0123abcd.sock.old",
        f"{PREFIX}-0123ABCD.sock",
        f"{PREFIX}-core-0123abcd.sock",
        f"other{PREFIX}-0123abcd.sock",
    ],
)
def test_a_socket_that_is_not_named_like_ours_is_kept_even_dead(
    name: str, short_path: Path
) -> None:
    foreign = dead_socket(short_path / name)

    remove_dead_sockets(short_path, PREFIX)

    assert foreign.exists()


def test_a_file_or_a_link_that_is_named_like_ours_but_is_no_socket_is_kept(
    short_path: Path,
) -> None:
    file = short_path / f"{PREFIX}-0123abcd.sock"
    file.write_text("somebody's")
    link = short_path / f"{PREFIX}-4567abcd.sock"
    link.symlink_to(short_path / "none")

    remove_dead_sockets(short_path, PREFIX)

    assert file.read_text() == "somebody's"
    assert link.is_symlink()


def test_a_prefix_is_no_pattern(short_path: Path) -> None:
    foreign = dead_socket(short_path / "aXb-0123abcd.sock")

    remove_dead_sockets(short_path, "a.b")

    assert foreign.exists()


def test_a_folder_that_is_gone_has_no_sockets(short_path: Path) -> None:
    remove_dead_sockets(short_path / "none", PREFIX)
