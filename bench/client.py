"""The kubelet's side of a plugin's socket, reduced to what takes time.

Rule: requests are serialized before they are timed and answers are left as bytes, so
that the client costs as little as may be, and the same for every plugin.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import grpc.aio

from bench.figures import percentile
from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as pb

OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 4 << 20),
)
DEVICE_PLUGIN = "v1beta1.DevicePlugin"
POD_RESOURCES = "v1.PodResourcesLister"
CALL_SECONDS = 10.0
BLOCK_CALLS = 50

Timed = Callable[[], Awaitable[float]]
"""One call; returns the seconds that it took."""


class SocketClient:
    """Calls the service on one socket over one connection."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS)

    async def __aenter__(self) -> Self:
        async with asyncio.timeout(CALL_SECONDS):
            await self._channel.channel_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    def timed(self, method: str, request: bytes, *, service: str = DEVICE_PLUGIN) -> Timed:
        """Return a timed call."""
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/{service}/{method}"
        )

        async def once() -> float:
            began = time.perf_counter()
            await call(request, timeout=CALL_SECONDS)
            return time.perf_counter() - began

        return once

    async def answer(self, method: str, request: bytes) -> bytes:
        """Return the answer to one call that is not timed."""
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/{DEVICE_PLUGIN}/{method}"
        )
        return await call(request, timeout=CALL_SECONDS)

    async def first_list(self) -> tuple[float, bytes]:
        """Open ListAndWatch; return the seconds to the first message, and the message."""
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
            f"/{DEVICE_PLUGIN}/ListAndWatch"
        )
        began = time.perf_counter()
        stream = watch(b"", timeout=CALL_SECONDS)
        async for message in stream:
            seconds = time.perf_counter() - began
            stream.cancel()
            return seconds, message
        raise ValueError("ListAndWatch ended without a message")

    async def first_list_seconds(self) -> float:
        """Open ListAndWatch; return the seconds to the first message."""
        return (await self.first_list())[0]


def device_ids(message: bytes) -> list[str]:
    """Return the IDs in a message of ListAndWatch."""
    return [device.ID for device in pb.ListAndWatchResponse.FromString(message).devices]


def allocate_request(ids: Sequence[str]) -> bytes:
    """Return a request for one container of these devices."""
    container = pb.ContainerAllocateRequest(devices_ids=ids)
    return pb.AllocateRequest(container_requests=[container]).SerializeToString()


def preferred_request(ids: Sequence[str], *, size: int) -> bytes:
    """Return a request for so many of these devices, in a random order, as kubelets ask."""
    shuffled = random.Random(1).sample(ids, len(ids))  # noqa: S311  # disorder, no secret
    container = pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=shuffled, allocation_size=size
    )
    return pb.PreferredAllocationRequest(container_requests=[container]).SerializeToString()


Samples = Mapping[str, Sequence[Sequence[float]]]
"""For each side: for each round: the seconds of each call."""


async def in_turns(
    sides: Mapping[str, Timed], *, rounds: int, calls: int, pause_seconds: float = 0.0
) -> Samples:
    """Call all sides in turns, in small blocks, whose order is another in each block.

    With a pause each block is one call, and the pause follows each.
    """
    names = list(sides)
    samples: dict[str, list[list[float]]] = {name: [] for name in names}
    block_calls = 1 if pause_seconds else min(BLOCK_CALLS, calls)
    for side in sides.values():
        for _ in range(block_calls):
            await side()
    for _ in range(rounds):
        for name in names:
            samples[name].append([])
        for _ in range(0, calls, block_calls):
            names.append(names.pop(0))
            for name in names:
                for _ in range(block_calls):
                    samples[name][-1].append(await sides[name]())
                    if pause_seconds:
                        await asyncio.sleep(pause_seconds)
    return samples


def microseconds(rounds: Sequence[Sequence[float]], percent: float) -> list[float]:
    """Return a percentile of each round, in microseconds."""
    return [percentile(seconds, percent) * 1e6 for seconds in rounds]
