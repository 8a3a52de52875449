"""One life of the plugin: serve on a socket of its own, register, until something ends it.

Rule 1: serve first, then register: the kubelet dials us inside Register.
Rule 2: state is compared, events only wake: the kubelet's socket and our own are
looked at on a tick as well.
Rule 3: never register while a stream is open, and never let two of our servers
stand at once: the kubelet mixes them up (measured on 1.36).
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import grpc.aio

from gpushare_plugin.errors import KubeletUnavailable, PluginSocketError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.service import DevicePluginService
from gpushare_plugin.ports import Kubelet, Registration, SocketFiles, SocketIdentity

log = event_logger(__name__)

KUBELET_SOCKET = "kubelet.sock"
LONGEST_SOCKET_PATH_BYTES = 107
"""sockaddr_un holds 108 bytes with the closing zero (unix(7))."""
FIRST_STREAM_SECONDS = 5.0
"""A kubelet that registered us opens its stream at once."""
LAST_CALLS_SECONDS = 1.0
SERVER_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 64 << 20))


class End(Enum):
    """What ended a life; the value is the log's and the metric's word for it."""

    KUBELET_RESTARTED = "kubelet_restarted"
    OWN_SOCKET_GONE = "own_socket_gone"
    STREAMS_ENDED = "streams_ended"
    NO_STREAM = "no_stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeRule:
    """Where and how one life is lived."""

    plugin_dir: Path
    resource: str
    socket_prefix: str
    prefers: bool
    """Whether the kubelet is to ask which devices had best be taken."""
    tick_seconds: float
    register_timeout_seconds: float


class PluginLife:
    """Lives one life after the other, each when it is told to."""

    def __init__(
        self,
        service: DevicePluginService,
        kubelet: Kubelet,
        files: SocketFiles,
        metrics: NodeMetrics,
        rule: LifeRule,
        ever_registered: asyncio.Event,
    ) -> None:
        self._service = service
        self._kubelet = kubelet
        self._files = files
        self._metrics = metrics
        self._rule = rule
        self._ever_registered = ever_registered
        self.registered = False
        self.socket: Path | None = None
        """Our socket while we serve on it."""

    async def live_once(self) -> End:
        """Serve and register; return what ended it.

        Raises:
            KubeletUnavailable: nobody took the registration.
            KubeletRefused: nobody ever will.
            PluginSocketError: our socket cannot be made.
        """
        kubelet = self._files.identity(KUBELET_SOCKET)
        if kubelet is None:
            folder = self._rule.plugin_dir
            raise KubeletUnavailable(f"{folder / KUBELET_SOCKET} is not there: no kubelet yet")
        async with self._serving() as name:
            own = self._files.identity(name)
            watching = self._until_end(name, own, kubelet)
            try:
                return await _first(self._register(name), watching)
            finally:
                self.registered = False
                await self._service.calls.answered(timeout_seconds=LAST_CALLS_SECONDS)

    async def _register(self, name: str) -> None:
        """Register, and never return after that: the watch over the life ends it."""
        resource = self._rule.resource
        registration = Registration(
            endpoint=name, resource_name=resource, preferred_allocation=self._rule.prefers
        )
        await self._kubelet.register(
            registration, timeout_seconds=self._rule.register_timeout_seconds
        )
        self._metrics.registrations.inc()
        self.registered = True
        self._ever_registered.set()
        log.info("registered", resource=resource, endpoint=name)

    async def _until_end(
        self, name: str, own: SocketIdentity | None, kubelet: SocketIdentity
    ) -> End:
        loop = asyncio.get_running_loop()
        registered_seconds: float | None = None
        streams = self._service.streams
        while True:
            if own is None or self._files.identity(name) != own:
                return End.OWN_SOCKET_GONE
            if self._files.identity(KUBELET_SOCKET) not in (None, kubelet):
                return End.KUBELET_RESTARTED
            if streams.all_ended.is_set():
                return End.STREAMS_ENDED
            if self.registered:
                registered_seconds = registered_seconds or loop.time()
                waited_seconds = loop.time() - registered_seconds
                if not streams.opened.is_set() and waited_seconds > FIRST_STREAM_SECONDS:
                    return End.NO_STREAM
            await self._wake()

    async def _wake(self) -> None:
        """Wait for a change in the folder, the end of the streams, or the tick."""
        changed = self._files.changed(timeout_seconds=self._rule.tick_seconds)
        waits = [
            asyncio.create_task(changed, name="wait for a socket to change"),
            asyncio.create_task(
                self._service.streams.all_ended.wait(), name="wait for the streams to end"
            ),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(waits)

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[str]:
        name = f"{self._rule.socket_prefix}-{secrets.token_hex(4)}.sock"
        path = self._rule.plugin_dir / name
        check_socket_path(path)
        self._service.new_life()
        server = grpc.aio.server(options=SERVER_OPTIONS)
        server.add_generic_rpc_handlers((self._service.handler(),))
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            # Without the nonce, so that the same trouble has the same words at each try.
            told = str(error).replace(path.name, f"{self._rule.socket_prefix}-*.sock")
            raise PluginSocketError(f"no socket in {path.parent}: {told}") from error
        await server.start()
        self.socket = path
        try:
            yield name
        finally:
            self.socket = None
            await server.stop(grace=None)
            with suppress(FileNotFoundError):
                path.unlink()


def check_socket_path(path: Path) -> None:
    """Make sure that a socket can be made there.

    Raises:
        PluginSocketError: the path is too long, or the folder missing or not writable.
    """
    length = len(os.fsencode(path))
    if length > LONGEST_SOCKET_PATH_BYTES:
        raise PluginSocketError(
            f"a socket in {path.parent} has a path of {length} bytes, and at most"
            f" {LONGEST_SOCKET_PATH_BYTES} are possible: name a shorter --plugin-dir"
        )
    if not path.parent.is_dir():
        raise PluginSocketError(
            f"{path.parent} is not a folder: the kubelet makes it at its first start; in a"
            " container, mount it from the host"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PluginSocketError(
            f"{path.parent} is not writable for user {os.geteuid()}: run as root, and mount it"
            " writable"
        )


async def _first(registering: Coroutine[Any, Any, None], watching: Coroutine[Any, Any, End]) -> End:
    """Register while the life is watched; what the watch says ends both."""
    register = asyncio.create_task(registering, name="register with the kubelet")
    watch = asyncio.create_task(watching, name="watch over this life")
    try:
        await asyncio.wait((register, watch), return_when=asyncio.FIRST_COMPLETED)
        if not watch.done():
            await register
        return await watch
    finally:
        await _cancelled([register, watch])


async def _cancelled(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
