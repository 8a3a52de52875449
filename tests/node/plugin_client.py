"""A client of the daemon's own socket: what the kubelet would ask, and what it never would."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
from grpc import aio

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire

OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
]
SECONDS = 5.0
"""Only a call that hangs takes this long."""


Stream = aio.UnaryStreamCall[wire.Empty, wire.ListAndWatchResponse]


async def read(stream: Stream) -> wire.ListAndWatchResponse:
    """The next list of a stream."""
    message = await stream.read()
    assert isinstance(message, wire.ListAndWatchResponse), "the stream has ended"
    return message


class Plugin:
    """The five calls."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel

    async def options(self) -> wire.DevicePluginOptions:
        call = self.channel.unary_unary(
            "/v1beta1.DevicePlugin/GetDevicePluginOptions",
            request_serializer=wire.Empty.SerializeToString,
            response_deserializer=wire.DevicePluginOptions.FromString,
        )
        return await call(wire.Empty(), timeout=SECONDS)

    def list_and_watch(self) -> Stream:
        call: aio.UnaryStreamMultiCallable[wire.Empty, wire.ListAndWatchResponse]
        call = self.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=wire.Empty.SerializeToString,
            response_deserializer=wire.ListAndWatchResponse.FromString,
        )
        return call(wire.Empty(), timeout=SECONDS)

    async def preferred(
        self, *, available: Iterable[str], size: int, must: Iterable[str] = ()
    ) -> list[str]:
        request = wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        call = self.channel.unary_unary(
            "/v1beta1.DevicePlugin/GetPreferredAllocation",
            request_serializer=wire.PreferredAllocationRequest.SerializeToString,
            response_deserializer=wire.PreferredAllocationResponse.FromString,
        )
        answer = await call(
            wire.PreferredAllocationRequest(container_requests=[request]), timeout=SECONDS
        )
        [container] = answer.container_responses
        return list(container.deviceIDs)

    async def allocate(self, *containers: Sequence[str]) -> list[wire.ContainerAllocateResponse]:
        call = self.channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate",
            request_serializer=wire.AllocateRequest.SerializeToString,
            response_deserializer=wire.AllocateResponse.FromString,
        )
        requests = [wire.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        answer = await call(wire.AllocateRequest(container_requests=requests), timeout=SECONDS)
        return list(answer.container_responses)

    async def refusal(self, *containers: Sequence[str]) -> tuple[grpc.StatusCode, str]:
        """Allocate, which must be refused; return the status and its text."""
        try:
            answer = await self.allocate(*containers)
        except aio.AioRpcError as error:
            return error.code(), error.details() or ""
        raise AssertionError(f"it was not refused: {answer}")

    async def pre_start(self, ids: Sequence[str]) -> wire.PreStartContainerResponse:
        call = self.channel.unary_unary(
            "/v1beta1.DevicePlugin/PreStartContainer",
            request_serializer=wire.PreStartContainerRequest.SerializeToString,
            response_deserializer=wire.PreStartContainerResponse.FromString,
        )
        return await call(wire.PreStartContainerRequest(devices_ids=ids), timeout=SECONDS)


@asynccontextmanager
async def plugin_at(socket: Path) -> AsyncIterator[Plugin]:
    async with aio.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
        yield Plugin(channel)


def ids(tag: str, *ordinals: int) -> list[str]:
    """Device IDs of one card."""
    return [f"{tag}-{ordinal}" for ordinal in ordinals]


def health_of(message: wire.ListAndWatchResponse) -> dict[str, set[str]]:
    """The health that a list tells of each card, by tag."""
    found: dict[str, set[str]] = {}
    for device in message.devices:
        found.setdefault(device.ID.partition("-")[0], set()).add(device.health)
    return found
