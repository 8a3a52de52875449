"""The plugin folder as files: what wakes, and what a socket is known by."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gpushare_plugin.adapters.socket_watch import SocketFolder, SocketWaiter

TICK_SECONDS = 60.0
"""Longer than a test may take: only a change can wake within it."""
PATIENCE_SECONDS = 5.0
TOO_SHORT_SECONDS = 0.05


def bind(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(path))


@contextmanager
def waiting_in(path: Path) -> Iterator[SocketWaiter]:
    with SocketFolder(path) as folder:
        yield folder.waiter()


async def change(folder: SocketWaiter) -> None:
    """Return when the folder wakes by itself, long before its tick."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        await folder.changed(timeout_seconds=TICK_SECONDS)


async def begin_to_watch(folder: SocketWaiter) -> None:
    """Let a new watch wake the once that it does, so that the next time is a change's."""
    await change(folder)


# -------------------------------------------------------------------------- what wakes


async def test_a_new_socket_wakes(short_path: Path) -> None:
    with waiting_in(short_path) as folder:
        await begin_to_watch(folder)
        bind(short_path / "kubelet.sock")

        await change(folder)


async def test_a_socket_that_is_removed_or_renamed_wakes(short_path: Path) -> None:
    bind(short_path / "kubelet.sock")
    with waiting_in(short_path) as folder:
        await begin_to_watch(folder)
        (short_path / "kubelet.sock").rename(short_path / "other.sock")
        await change(folder)
        (short_path / "other.sock").unlink()

        await change(folder)


async def test_a_change_between_a_look_and_the_wait_is_not_missed(short_path: Path) -> None:
    with waiting_in(short_path) as folder:
        looked = folder.identity("kubelet.sock")
        bind(short_path / "kubelet.sock")
        await change(folder)

        assert looked is None
        assert folder.identity("kubelet.sock") is not None


async def test_the_kubelets_checkpoint_does_not_wake(short_path: Path) -> None:
    with waiting_in(short_path) as folder:
        await begin_to_watch(folder)
        (short_path / "kubelet_internal_checkpoint").write_text("{}")

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await folder.changed(timeout_seconds=TICK_SECONDS)


async def test_without_a_change_the_tick_ends_the_wait(short_path: Path) -> None:
    with waiting_in(short_path) as folder:
        await begin_to_watch(folder)

        await folder.changed(timeout_seconds=TOO_SHORT_SECONDS)


async def test_two_who_wait_are_both_woken(short_path: Path) -> None:
    with waiting_in(short_path) as folder:
        await begin_to_watch(folder)
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(change(folder)) for _ in range(2)]
            await asyncio.sleep(0)
            bind(short_path / "kubelet.sock")

    assert all(task.done() for task in waiting)


async def test_a_change_that_one_has_been_woken_by_still_wakes_the_other(short_path: Path) -> None:
    with SocketFolder(short_path) as folder:
        one, other = folder.waiter(), folder.waiter()
        for each in (one, other):
            await begin_to_watch(each)
        bind(short_path / "kubelet.sock")
        await change(one)

        await change(other)


# -------------------------------------------------------------- folders of all kinds


async def test_b15_a_folder_that_is_not_there_yet_is_watched_once_it_is(short_path: Path) -> None:
    late = short_path / "late"
    with waiting_in(late) as folder:
        await folder.changed(timeout_seconds=TOO_SHORT_SECONDS)
        late.mkdir()
        await begin_to_watch(folder)
        bind(late / "kubelet.sock")

        await change(folder)


async def test_b15_behind_a_symbolic_link_the_real_folder_is_watched(short_path: Path) -> None:
    real = short_path / "real"
    real.mkdir()
    (short_path / "link").symlink_to(real)
    with waiting_in(short_path / "link") as folder:
        await begin_to_watch(folder)
        bind(real / "kubelet.sock")

        await change(folder)


async def test_a_link_that_leads_elsewhere_now_is_followed(short_path: Path) -> None:
    for name in ("one", "other"):
        (short_path / name).mkdir()
    link = short_path / "link"
    link.symlink_to(short_path / "one")
    with waiting_in(link) as folder:
        await begin_to_watch(folder)
        link.unlink()
        link.symlink_to(short_path / "other")
        await begin_to_watch(folder)
        bind(short_path / "other" / "kubelet.sock")

        await change(folder)


async def test_a_folder_made_anew_is_watched_again_even_with_the_same_inode(
    short_path: Path,
) -> None:
    path = short_path / "plugins"
    path.mkdir()
    with waiting_in(path) as folder:
        await begin_to_watch(folder)
        make_anew(path)
        # The old watch ends at a time of its own; once it has, the next wait makes another.
        for _ in range(3):
            await folder.changed(timeout_seconds=0.1)
        bind(path / "kubelet.sock")

        await change(folder)


def make_anew(path: Path) -> None:
    """Make a folder again, with the inode it had where the file system gives it once more."""
    inode = path.stat().st_ino
    for _ in range(50):
        path.rmdir()
        path.mkdir()
        if path.stat().st_ino == inode:
            return


async def test_a_folder_that_goes_wakes(short_path: Path) -> None:
    path = short_path / "plugins"
    path.mkdir()
    with waiting_in(path) as folder:
        await begin_to_watch(folder)
        path.rmdir()

        await change(folder)
        await folder.changed(timeout_seconds=TOO_SHORT_SECONDS)


async def test_a_file_in_the_folders_place_only_ticks(short_path: Path) -> None:
    (short_path / "plugins").touch()
    with waiting_in(short_path / "plugins") as folder:
        await begin_to_watch(folder)

        await folder.changed(timeout_seconds=TOO_SHORT_SECONDS)
        assert folder.identity("kubelet.sock") is None


# ------------------------------------------------------------------------- identities


async def test_a_socket_is_itself_for_as_long_as_it_is_there(short_path: Path) -> None:
    bind(short_path / "kubelet.sock")
    folder = SocketFolder(short_path).waiter()

    assert folder.identity("kubelet.sock") == folder.identity("kubelet.sock") is not None


async def test_a_socket_that_is_not_there_has_no_identity(short_path: Path) -> None:
    assert SocketFolder(short_path).waiter().identity("kubelet.sock") is None
    assert SocketFolder(short_path / "none").waiter().identity("kubelet.sock") is None


async def test_a_link_to_nothing_has_no_identity(short_path: Path) -> None:
    (short_path / "kubelet.sock").symlink_to(short_path / "none")

    assert SocketFolder(short_path).waiter().identity("kubelet.sock") is None


async def test_b03_a_socket_made_anew_is_another_one_even_with_the_same_inode(
    short_path: Path,
) -> None:
    folder, path = SocketFolder(short_path).waiter(), short_path / "kubelet.sock"
    seen = []
    for _ in range(20):
        bind(path)
        seen.append(folder.identity("kubelet.sock"))
        path.unlink()
        await asyncio.sleep(0.005)  # a file's time is as coarse as the kernel's tick

    assert len(set(seen)) == 20
