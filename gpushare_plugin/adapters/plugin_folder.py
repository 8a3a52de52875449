"""What earlier and other instances of ours have in the plugin folder: their lock and sockets.

Rule 1: one instance for each resource on a node: two at once make the kubelet show
0 units when the first of them ends (measured on 1.36). The second waits.
Rule 2: only sockets of our own pattern on which nobody answers are removed.
"""

import fcntl
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from gpushare_plugin.errors import PluginSocketError
from gpushare_plugin.logs import event_logger

log = event_logger(__name__)


class InstanceLock:
    """A lock file that the kernel lets go of when its holder ends, however it ends."""

    def __init__(self, folder: Path, resource_name: str) -> None:
        self._path = folder / f"gpushare-{resource_name.replace('/', '_')}.lock"
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock if nobody has it; say whether it is ours now.

        Raises:
            PluginSocketError: the lock file cannot be made.
        """
        if self._descriptor is not None:
            if _is_file_at(self._descriptor, self._path):
                return True
            # Kubelets of old remove every file from the folder as they start: a lock on a file
            # that is gone keeps nobody out.
            self.release()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise PluginSocketError(
                f"{self._path} cannot be made: {error.strerror}; expected the kubelet's plugin"
                " folder, writable"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        if not _is_file_at(descriptor, self._path):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let the lock go; the file stays, since another instance may wait on it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _is_file_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def remove_dead_sockets(folder: Path, prefix: str) -> None:
    """Remove the sockets that earlier starts of ours left behind; never raises."""
    pattern = re.compile(rf"{re.escape(prefix)}-[0-9a-f]{{8}}\.sock")
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(folder.iterdir())
    for path in paths:
        if pattern.fullmatch(path.name) and path.is_socket() and not _answers(path):
            with suppress(OSError):
                path.unlink()
                log.info("dead_socket_removed", path=path)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
