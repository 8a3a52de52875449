"""The control socket: the verbs of a simulated peer for other processes.

The wire: a Unix socket, one JSON object a line. A request is
`{"verb": "create", "resource": "nodes", "value": {...}}`: the verb is the method's
name, the other keys are its parameters. The reply is `{"result": ...}` or
`{"error": CLASS, "text": ...}`.
Rule 1: replies come in the order of the requests of one connection; who wants
two things at a time opens two.
Rule 2: a verb that was begun is finished, though its caller may be gone.
Must not know: any of the peers.
"""

import asyncio
import inspect
import json
import logging
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self, get_type_hints

from gpushare_plugin.sim.json_values import decode, encode

LINE_LIMIT_BYTES = 256 * 1024 * 1024
"""Far above all the objects of a large cluster, and a long journal."""

_log = logging.getLogger(__name__)


class ControlServer:
    """Serves the verbs of one simulated peer on a socket."""

    def __init__(
        self, peer: object, path: Path, *, verbs: tuple[str, ...], failures: type[Exception]
    ) -> None:
        """`verbs` are methods of `peer`; `failures` is the root of what they raise."""
        self._peer = peer
        self._path = path
        self._verbs = verbs
        self._failures = failures
        self._socket: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._path.unlink(missing_ok=True)
        self._socket = await asyncio.start_unix_server(
            self._connected, self._path, limit=LINE_LIMIT_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._socket is None:
            return
        self._socket.close()
        # Before the wait: since 3.12 it lasts until the last connection is closed.
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._socket.wait_closed()
        self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a connection is served by a task of its own")
        self._connections.add(task)
        try:
            while line := await reader.readline():
                reply = await self._reply(line)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            _log.debug("control connection lost")
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            return {"result": encode(await self._act(json.loads(line)))}
        except (self._failures, ValueError) as failure:
            return {"error": type(failure).__name__, "text": str(failure)}

    async def _act(self, request: Any) -> Any:
        if not isinstance(request, dict) or request.get("verb") not in self._verbs:
            raise ValueError(f"expected an object with a verb of {', '.join(self._verbs)}")
        method = getattr(self._peer, request.pop("verb"))
        hints = get_type_hints(method)
        if unknown := sorted(request.keys() - hints.keys()):
            raise ValueError(f"{method.__name__} has no {', '.join(unknown)}")
        parameters = {name: decode(hints[name], v, at=name) for name, v in request.items()}
        try:
            inspect.signature(method).bind(**parameters)
        except TypeError as failure:
            raise ValueError(f"{method.__name__}: {failure}") from failure
        result = method(**parameters)
        return await result if asyncio.iscoroutine(result) else result


async def ask(path: Path, verb: str, *, failures: ModuleType, **parameters: Any) -> Any:
    """Ask for one verb over a connection of its own; return its result, still as JSON.

    What the peer raises there is raised here, as the class of that name in `failures`.
    """
    reader, writer = await asyncio.open_unix_connection(path, limit=LINE_LIMIT_BYTES)
    try:
        request = {"verb": verb} | {name: encode(each) for name, each in parameters.items()}
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    if not line:
        raise ConnectionResetError(f"the peer at {path} went away during {verb}")
    reply = json.loads(line)
    if "error" in reply:
        raise getattr(failures, reply["error"], failures.ControlError)(reply["text"])
    return reply["result"]
