"""The control socket: the verbs of a `SimKubelet` for other processes.

The wire: a Unix socket, one JSON object a line. A request is
`{"verb": "admit", "pod": {...}}`: the verb is the method's name, the other keys
are its parameters. The reply is `{"result": ...}` or `{"error": CLASS, "text": ...}`.
Rule 1: replies come in the order of the requests of one connection; who wants
two things at a time opens two.
Rule 2: a verb that was begun is finished, though its caller may be gone.
"""

import asyncio
import json
import logging
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_type_hints

from gpushare_plugin.sim.kubelet.failures import SimKubeletError
from gpushare_plugin.sim.kubelet.json_values import decode, encode
from gpushare_plugin.sim.kubelet.kubelet import SimKubelet

VERBS = (
    "start",
    "stop",
    "restart",
    "reboot",
    "admit",
    "delete_pod",
    "finish_pod",
    "restart_container",
    "set_faults",
    "drop_stream",
    "state",
    "newer_state",
    "registered",
    "allocatable",
    "capacity",
    "pod_in_phase",
)
LINE_LIMIT_BYTES = 256 * 1024 * 1024
"""A state with the largest device list that fits a gRPC message stays far below."""

_log = logging.getLogger(__name__)


class ControlServer:
    """Serves one kubelet's verbs on a socket."""

    def __init__(self, kubelet: SimKubelet, path: Path) -> None:
        self._kubelet = kubelet
        self._path = path
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(
            self._connected, self._path, limit=LINE_LIMIT_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is None:
            return
        self._server.close()
        # Before the wait: since 3.12 it lasts until the last connection is closed.
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
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
        except (SimKubeletError, ValueError) as failure:
            return {"error": type(failure).__name__, "text": str(failure)}

    async def _act(self, request: Any) -> Any:
        if not isinstance(request, dict) or request.get("verb") not in VERBS:
            raise ValueError(f"expected an object with a verb of {', '.join(VERBS)}")
        method = getattr(self._kubelet, request.pop("verb"))
        hints = get_type_hints(method)
        del hints["return"]
        if unknown := sorted(request.keys() - hints.keys()):
            raise ValueError(f"{method.__name__} has no {', '.join(unknown)}")
        parameters = {name: decode(hints[name], v, at=name) for name, v in request.items()}
        try:
            result = method(**parameters)
        except TypeError as failure:
            raise ValueError(str(failure)) from failure
        return await result if asyncio.iscoroutine(result) else result
