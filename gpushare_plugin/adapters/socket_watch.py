"""The sockets in the plugin folder as files: who they are now, and when something changed.

Rule 1: a change only wakes; what is true is what `identity` says.
Rule 2: each who waits has a wake of its own: what one has slept through, another has not.
Rule 3: without inotify (no folder yet, no watches left) the time-out is the tick,
and nothing else is lost.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports import SocketIdentity

log = event_logger(__name__)


class SocketFolder:
    """One folder of sockets, and its watch. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiters: list[SocketWaiter] = []
        self._observer: BaseObserver | None = None
        self._watched: SocketIdentity | None = None
        self._complained = False

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def waiter(self) -> "SocketWaiter":
        """Return who looks and waits here for itself; it lives as long as the folder does."""
        waiter = SocketWaiter(self, self._folder)
        self._waiters.append(waiter)
        return waiter

    def watch(self) -> None:
        """Watch the folder as it is now: one that was made anew is another one."""
        # A folder's ctime changes with its content, so its inode is what it is known by.
        now = _identity(self._folder)
        folder = SocketIdentity(inode=now.inode, changed_ns=0) if now else None
        if folder == self._watched and self._hears():
            return
        self._stop()
        self._watched = folder
        # What changed between the caller's look and a new watch, nobody tells.
        self._wake_all()
        if folder is None:
            return
        observer = Observer()
        try:
            # The path is resolved: a symbolic link's target is what changes.
            observer.schedule(_Waker(self), str(self._folder.resolve()), recursive=False)
            observer.start()
        except OSError as error:
            if not self._complained:
                log.warning("watch_unavailable", folder=self._folder, error=error)
            self._complained = True
            return
        self._observer = observer

    def _hears(self) -> bool:
        """Say whether the watch lives; it ends with its folder, whose inode a new one may get."""
        if self._observer is None:
            return True
        return all(each.should_keep_running() for each in self._observer.emitters)

    def _stop(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout=1)
            self._observer = None

    def wake(self) -> None:
        """Wake all who wait; called from the observer's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for waiter in self._waiters:
            waiter.wake()


class SocketWaiter:
    """One who looks at a folder and waits for changes; see `ports.SocketFiles`."""

    def __init__(self, watched: SocketFolder, folder: Path) -> None:
        self._watched = watched
        self._folder = folder
        self._change = asyncio.Event()

    def identity(self, name: str) -> SocketIdentity | None:
        """Return which file the name is now; None if there is none."""
        return _identity(self._folder / name)

    async def changed(self, *, timeout_seconds: float) -> None:
        """Return when something in the folder changed, or after the time-out.

        A change since this one's last call counts, so none is missed between a look and a wait.
        """
        self._watched.watch()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._change.wait()
        self._change.clear()

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._change.set()


class _Waker(FileSystemEventHandler):
    def __init__(self, folder: SocketFolder) -> None:
        self._folder = folder

    def on_created(self, event: FileSystemEvent) -> None:
        self._wake_for(event)

    def on_deleted(self, event: FileSystemEvent) -> None:
        self._wake_for(event)

    def on_moved(self, event: FileSystemEvent) -> None:
        self._wake_for(event)

    def _wake_for(self, event: FileSystemEvent) -> None:
        # The kubelet's checkpoint is written there at each admission; it is not our concern.
        paths = (str(event.src_path), str(event.dest_path))
        if event.is_directory or any(path.endswith(".sock") for path in paths):
            self._folder.wake()


def _identity(path: Path) -> SocketIdentity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return SocketIdentity(inode=status.st_ino, changed_ns=status.st_ctime_ns)
