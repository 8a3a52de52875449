"""Rows of starting: process start to registered, the first list of all, a kubelet's restart.

A start is timed from before the process is made until a kubelet has dialled back and
answered Register. This process is that kubelet: no more than what the plugin waits for.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from bench.client import SocketClient
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.processes import BenchError, running
from bench.subjects import (
    EMPTY_RESOURCE,
    RESOURCE,
    UP_SECONDS,
    Side,
    daemon,
    daemon_command,
    empty,
    empty_command,
    plugin_dir,
)
from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What one start took."""

    registered_seconds: float
    first_list_seconds: float


async def start_rows(plan: Plan) -> list[Row]:
    """Measure starts and restarts."""
    starts: dict[str, list[Start]] = {"ours": [], "empty": []}
    names = list(starts)
    # Once before it counts: files are read, and compiled, for the first time.
    for name in names:
        await _start(name)
    for _ in range(plan.rounds):
        names.reverse()
        for name in names:
            starts[name].append(await _start(name))
    registered = {
        name: [each.registered_seconds * 1e3 for each in each_side]
        for name, each_side in starts.items()
    }
    first_list = {
        name: [each.first_list_seconds * 1e3 for each in each_side]
        for name, each_side in starts.items()
    }
    return [
        row(
            "Process start to registered",
            "ms",
            registered["ours"],
            registered["empty"],
            bound=Bound(most=2.5, of=Compared.RATIO),
        ),
        row(
            "ListAndWatch, first message, first stream of a process",
            "ms",
            first_list["ours"],
            first_list["empty"],
            bound=Bound(most=1.0, of=Compared.OVER),
        ),
        await _restart_row(plan),
    ]


# ----------------------------------------------------------------------- starting


async def _start(name: str) -> Start:
    with tempfile.TemporaryDirectory(prefix="gsb", ignore_cleanup_errors=True) as folder:
        path = Path(folder)
        plugin_dir(path).mkdir()
        command = daemon_command(path) if name == "ours" else empty_command(path)
        async with _registration_server(plugin_dir(path)) as registered:
            began = time.perf_counter()
            async with running(*command, log=path / "plugin.log") as process:
                try:
                    async with asyncio.timeout(UP_SECONDS):
                        registration = await registered
                except TimeoutError:
                    raise BenchError(f"never registered:\n{process.said()}") from None
                seconds = registration.at_seconds - began
                # The channel that the dial-back made; the kubelet keeps its own as well.
                first_list_seconds = await registration.client.first_list_seconds()
    return Start(registered_seconds=seconds, first_list_seconds=first_list_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    at_seconds: float
    client: SocketClient


@asynccontextmanager
async def _registration_server(folder: Path) -> AsyncIterator[asyncio.Future[_Registered]]:
    registered: asyncio.Future[_Registered] = asyncio.get_running_loop().create_future()
    clients: list[SocketClient] = []

    async def register(request: pb.RegisterRequest, _: object) -> pb.Empty:
        client = await SocketClient(folder / request.endpoint).__aenter__()
        clients.append(client)
        await client.timed("GetDevicePluginOptions", b"")()
        if not registered.done():
            registered.set_result(_Registered(at_seconds=time.perf_counter(), client=client))
        return pb.Empty()

    method = grpc.unary_unary_rpc_method_handler(
        register,
        request_deserializer=pb.RegisterRequest.FromString,
        response_serializer=pb.Empty.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": method}),)
    )
    server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
    await server.start()
    try:
        yield registered
    finally:
        for client in clients:
            await client.__aexit__()
        await server.stop(grace=None)


# --------------------------------------------------------------------- restarting


async def _restart_row(plan: Plan) -> Row:
    async with daemon() as ours, empty(watch=True) as baseline:
        milliseconds: dict[str, list[float]] = {"ours": [], "empty": []}
        sides = [("ours", ours, RESOURCE), ("empty", baseline, EMPTY_RESOURCE)]
        for count in range(plan.restarts):
            sides.reverse()
            for name, side, resource in sides:
                seconds = await _restart(side, resource, registrations=count + 2)
                milliseconds[name].append(seconds * 1e3)
    return row(
        "Kubelet restart to registered again",
        "ms",
        milliseconds["ours"],
        milliseconds["empty"],
        bound=Bound(most=1000.0, of=Compared.OURS),
        note="the kubelet's own stop and start are in both",
    )


async def _restart(side: Side, resource: str, *, registrations: int) -> float:
    began = time.perf_counter()
    await side.kubelet.restart()
    await side.kubelet.registered(resource, count=registrations, timeout_seconds=UP_SECONDS)
    return time.perf_counter() - began
