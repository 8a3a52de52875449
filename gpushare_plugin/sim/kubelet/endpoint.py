"""One plugin's socket as the kubelet uses it: dial it, call it, hang up.

Rule 1: no deadline but for dialling and PreStartContainer; the real kubelet has no other.
Rule 2: every failure of a call is a `PluginCallError` whose text is what the
kubelet's gRPC would say, and hanging up makes running calls fail that way too:
it is never a cancellation of the caller.
Rule 3: knows nothing of pods, accounts or other endpoints.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc import aio

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet.journal import Journal, stopwatch
from gpushare_plugin.sim.kubelet.states import RpcRecord

_Answer = TypeVar("_Answer", bound=Message)

# What our gRPC says where the kubelet's has other words.
_PEER_GONE = re.compile(r"Socket closed|Cancelling all calls|Connection reset|Broken pipe")
_TOO_LARGE = re.compile(r"received message larger than max \(\d+ vs\. \d+\)", re.IGNORECASE)


class PluginCallError(Exception):
    """A call to the plugin failed; the text is the kubelet's."""


class Endpoint:
    """A dialled plugin."""

    def __init__(
        self, *, resource: str, path: Path, receive_limit_bytes: int, journal: Journal
    ) -> None:
        self.resource = resource
        self.path = path
        self.options = wire.DevicePluginOptions()
        self.stopped = False
        self._closed = False
        # What a call fails with that we hang up on. Where the plugin is gone, that
        # is the cause for all its calls, whichever of them noticed first.
        self._hung_up = _rpc_error("Canceled", "grpc: the client connection is closing")
        self._journal = journal
        self._channel = aio.insecure_channel(
            f"unix:{path}",
            options=[
                ("grpc.default_authority", "localhost"),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_receive_message_length", receive_limit_bytes),
                # Two endpoints on one path are two connections, as the kubelet's are.
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )

    async def dial(self, *, timeout_seconds: float) -> None:
        """Wait until the plugin's server answers."""
        try:
            async with asyncio.timeout(timeout_seconds):
                with self._in_kubelet_words():
                    await self._channel.channel_ready()
        except TimeoutError:
            text = "failed to dial device plugin: context deadline exceeded"
            raise PluginCallError(text) from None

    async def close(self) -> None:
        """Hang up; calls on their way fail."""
        self._closed = True
        await self._channel.close()

    # ----------------------------------------------------------------------- calls

    async def get_options(self) -> wire.DevicePluginOptions:
        """Ask how the plugin wants to be called."""
        answer = wire.DevicePluginOptions
        return await self._call("GetDevicePluginOptions", wire.Empty(), answer)

    async def get_preferred_allocation(
        self, *, available: Iterable[str], must_include: Iterable[str], size: int
    ) -> list[str]:
        """Ask for a hint; an answer without a container is an empty hint."""
        request = wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        answer = await self._call(
            "GetPreferredAllocation",
            wire.PreferredAllocationRequest(container_requests=[request]),
            wire.PreferredAllocationResponse,
        )
        return [i for container in answer.container_responses[:1] for i in container.deviceIDs]

    async def allocate(self, ids: Iterable[str]) -> wire.ContainerAllocateResponse | None:
        """Allocate for one container; None where the answer has no container in it."""
        request = wire.ContainerAllocateRequest(devices_ids=ids)
        answer = await self._call(
            "Allocate",
            wire.AllocateRequest(container_requests=[request]),
            wire.AllocateResponse,
        )
        return answer.container_responses[0] if answer.container_responses else None

    async def pre_start_container(self, ids: Iterable[str], *, timeout_seconds: float) -> None:
        """Tell the plugin that a container is about to start."""
        request = wire.PreStartContainerRequest(devices_ids=ids)
        answer = wire.PreStartContainerResponse
        await self._call("PreStartContainer", request, answer, timeout_seconds=timeout_seconds)

    async def list_and_watch(self) -> AsyncIterator[tuple[wire.ListAndWatchResponse, int]]:
        """Yield each message and its size in bytes; the end of the stream is an error."""
        with self._in_kubelet_words():
            watch: aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch"
            )
            async for message in watch(b""):
                yield wire.ListAndWatchResponse.FromString(message), len(message)
        raise PluginCallError("EOF")

    async def _call(
        self,
        method: str,
        request: Message,
        answer: type[_Answer],
        *,
        timeout_seconds: float | None = None,
    ) -> _Answer:
        if self.stopped:
            raise PluginCallError(f"endpoint {self.path} has been stopped")
        sent = request.SerializeToString()
        received, error, seconds = b"", "cancelled", stopwatch()
        try:
            with self._in_kubelet_words():
                call: aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
                    f"/v1beta1.DevicePlugin/{method}"
                )
                received = await call(sent, timeout=timeout_seconds)
                decoded = answer.FromString(received)
            error = ""
        except PluginCallError as failure:
            error = str(failure)
            raise
        finally:
            self._journal.rpc(
                RpcRecord(
                    method=method,
                    resource=self.resource,
                    request_bytes=len(sent),
                    response_bytes=len(received),
                    seconds=seconds(),
                    error=error,
                )
            )
        return decoded

    @contextmanager
    def _in_kubelet_words(self) -> Iterator[None]:
        try:
            yield
        except aio.AioRpcError as failure:
            if _peer_gone(failure):
                self._hung_up = _rpc_error("Unavailable", "error reading from server: EOF")
                raise PluginCallError(self._hung_up) from failure
            raise PluginCallError(_from_status(failure)) from failure
        except DecodeError as failure:
            text = f"grpc: failed to unmarshal the received message: {failure}"
            raise PluginCallError(_rpc_error("Internal", text)) from failure
        except aio.UsageError as failure:
            raise PluginCallError(self._hung_up) from failure
        except asyncio.CancelledError as failure:
            # Hanging up cancels the calls on the channel, which looks as if this
            # task were cancelled; only the task itself can tell the two apart.
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            raise PluginCallError(self._hung_up) from failure


def _peer_gone(failure: aio.AioRpcError) -> bool:
    unavailable = failure.code() is grpc.StatusCode.UNAVAILABLE
    return unavailable and _PEER_GONE.search(failure.details() or "") is not None


def _from_status(failure: aio.AioRpcError) -> str:
    code, text = failure.code(), failure.details() or ""
    if too_large := _TOO_LARGE.search(text):
        text = f"grpc: {too_large.group().lower()}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = "context deadline exceeded"
    if code is grpc.StatusCode.CANCELLED:
        return _rpc_error("Canceled", text)
    return _rpc_error(code.name.title().replace("_", ""), text)


def _rpc_error(code: str, text: str) -> str:
    return f"rpc error: code = {code} desc = {text}"
