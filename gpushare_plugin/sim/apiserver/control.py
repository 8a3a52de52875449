"""The control socket: the verbs of a `SimApiServer` for other processes.

The wire: a Unix socket, one JSON object a line. A request is
`{"verb": "create", "resource": "nodes", "value": {...}}`: the verb is the method's
name, the other keys are its parameters. The reply is `{"result": ...}` or
`{"error": CLASS, "text": ...}`.
Rule 1: replies come in the order of the requests of one connection; who wants
two things at a time opens two.
Rule 2: a verb that was begun is finished, though its caller may be gone.
"""

import asyncio
import inspect
import json
import logging
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_type_hints

from gpushare_plugin.sim.apiserver.apiserver import SimApiServer
from gpushare_plugin.sim.apiserver.failures import SimApiServerError
from gpushare_plugin.sim.apiserver.json_values import decode, encode

VERBS = (
    "go_away",
    "come_back",
    "compact",
    "create",
    "create_many",
    "replace",
    "patch",
    "delete",
    "set_pod_phase",
    "terminate_pod",
    "finish_termination",
    "inject",
    "lift",
    "lift_all",
    "silence_watches",
    "cut_watches",
    "set_access",
    "get",
    "objects",
    "calls",
    "state",
    "kubeconfig",
    "newer_state",
    "gone",
    "watched",
    "called",
)
LINE_LIMIT_BYTES = 256 * 1024 * 1024
"""Far above all the objects of a large cluster, and a long journal."""

_log = logging.getLogger(__name__)


class ControlServer:
    """Serves one API server's verbs on a socket."""

    def __init__(self, server: SimApiServer, path: Path) -> None:
        self._api_server = server
        self._path = path
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
        except (SimApiServerError, ValueError) as failure:
            return {"error": type(failure).__name__, "text": str(failure)}

    async def _act(self, request: Any) -> Any:
        if not isinstance(request, dict) or request.get("verb") not in VERBS:
            raise ValueError(f"expected an object with a verb of {', '.join(VERBS)}")
        method = getattr(self._api_server, request.pop("verb"))
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
