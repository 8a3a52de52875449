"""Socket files as a kubelet makes, leaves and wipes them.

Rule 1: a kubelet that ends removes nothing: kubelet.sock stays, refuses
connections, and keeps its inode and ctime.
Rule 2: a kubelet that starts removes every socket in the plugin folder, and
nothing else, before it makes its own.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

import grpc
from grpc import aio


class LastingAddress:
    """The address of a socket file that outlives the gRPC server bound to it.

    gRPC unlinks the path it was given when its server stops. So it is given a
    path through an open directory, and that way is closed before the server stops.
    """

    def __init__(self, path: Path) -> None:
        self._directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        self.text = f"unix:/proc/self/fd/{self._directory}/{path.name}"

    def cut(self) -> None:
        """Lead the way nowhere; the number stays in use, so that no other folder can get it."""
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, self._directory, inheritable=False)
        os.close(nowhere)

    def close(self) -> None:
        """Give the number back; only after the server has stopped."""
        os.close(self._directory)


class LastingServer:
    """A gRPC server on a socket file that stays behind, dead, when the server stops."""

    def __init__(self, path: Path, handler: grpc.GenericRpcHandler) -> None:
        self._path = path
        self._handler = handler
        self._server: aio.Server | None = None
        self._address: LastingAddress | None = None

    async def start(self) -> None:
        """Make the socket file anew and serve on it."""
        self._path.unlink(missing_ok=True)
        self._address = LastingAddress(self._path)
        self._server = aio.server(handlers=[self._handler])
        self._server.add_insecure_port(self._address.text)
        await self._server.start()

    async def stop(self) -> None:
        """End every call at once."""
        if self._server is None or self._address is None:
            return
        self._address.cut()
        await self._server.stop(None)
        self._address.close()
        self._server = self._address = None


def wipe_sockets(folder: Path) -> None:
    """Remove every socket in the folder; other files and folders stay."""
    for entry in folder.iterdir():
        # A plugin may take its socket away at the same moment.
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(entry.stat().st_mode):
                entry.unlink()
