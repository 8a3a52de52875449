"""The file in the plugin folder that keeps the card record.

Rule 1: written whole or not at all: a new file, synced, in the old one's place.
Rule 2: one writer: who has the resource's lock (`plugin_folder`).
Rule 3: kubelets of old empty the folder as they start, so a file can be gone at any time.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from gpushare_plugin.core.dialect import check_resource_name
from gpushare_plugin.errors import ConfigError, RecordError
from gpushare_plugin.ports import SocketIdentity

LONGEST_BYTES = 1 << 20
"""Far above any record; so a file that is something else is not read whole."""
_NAME = re.compile(r"gpushare-(?P<resource>.+)\.cards\.json")


def recorded_resources(folder: Path) -> tuple[str, ...]:
    """Return the resources whose record is in the folder, whatever it says; never raises.

    Their names are in the files' names, so a record that cannot be read names its own too.
    """
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return ()
    found = (_NAME.fullmatch(name) for name in names)
    # A domain has no underscore, so the first one stands for the slash.
    resources = (match["resource"].replace("_", "/", 1) for match in found if match)
    return tuple(each for each in resources if _is_resource(each))


class RecordFile:
    """One card record on disk; see `ports.RecordFile`."""

    def __init__(self, folder: Path, resource_name: str) -> None:
        self.path = folder / f"gpushare-{resource_name.replace('/', '_')}.cards.json"
        self._kept: SocketIdentity | None = None

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> str | None:
        """Return the text, or None where there is no file; see `ports.RecordFile`."""
        try:
            with self.path.open("rb") as file:
                content = file.read(LONGEST_BYTES + 1)
                self._kept = _identity(os.fstat(file.fileno()))
            if len(content) > LONGEST_BYTES:
                raise RecordError(
                    f"{self.path}: found more than {LONGEST_BYTES} bytes, expected a card record"
                )
            return content.decode()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RecordError(f"{self.path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise RecordError(f"{self.path}: found bytes that are no text: {error}") from error

    def write(self, text: str) -> None:
        """Put the text in the place of what is there; see `ports.RecordFile`."""
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            with new.open("wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
            self._kept = _identity(self.path.stat())
            _sync(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise RecordError(
                f"{self.path} cannot be written: {error.strerror}; expected the kubelet's plugin"
                " folder, writable, with room for a few kilobytes"
            ) from error

    def remove(self) -> None:
        """Remove the file, if it is there.

        Raises:
            RecordError: it cannot be removed.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise RecordError(f"{self.path} cannot be removed: {error.strerror}") from error

    def is_kept(self) -> bool:
        """Say whether the file that was read or written last is still there."""
        try:
            return _identity(self.path.stat()) == self._kept
        except OSError:
            return False


def _is_resource(name: str) -> bool:
    try:
        check_resource_name(name)
    except ConfigError:
        return False
    return True


def _identity(status: os.stat_result) -> SocketIdentity:
    return SocketIdentity(inode=status.st_ino, changed_ns=status.st_ctime_ns)


def _sync(folder: Path) -> None:
    """Have the folder's own entries on disk, so that a power cut does not bring the old back."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
