"""The kubelet's PodResources service.

Rule: both shapes are read: an entry for each device (1.21 and later) and an entry
for each resource with all its devices (1.20).
"""

from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from gpushare_plugin.adapters.channels import socket_channel
from gpushare_plugin.core.association import ContainerDevices, ListedPod, PodName
from gpushare_plugin.errors import PodResourcesError, PodResourcesLimited
from gpushare_plugin.proto import podresources_v1_pb2 as pb


class PodResourcesClient:
    """Asks which pod holds what; see `ports.PodResources`.

    The channel is kept while somebody answers. One that found nobody waits before it tries
    again, and would tell of a kubelet that is back only then; so it is made anew.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: grpc.aio.Channel | None = None

    async def list_pods(self, resource_name: str, *, timeout_seconds: float) -> Sequence[ListedPod]:
        """Return the active pods with what they hold; see `ports.PodResources`."""
        answer = await self._ask("List", pb.ListPodResourcesRequest(), timeout_seconds)
        try:
            read = pb.ListPodResourcesResponse.FromString(answer)
        except DecodeError as error:
            raise PodResourcesError(
                f"the kubelet at {self._socket} answered with what is no list of pods: {error}"
            ) from error
        return [_listed(pod, resource_name) for pod in read.pod_resources]

    async def allocatable_units(self, resource_name: str, *, timeout_seconds: float) -> int:
        """Return how many devices of a resource the kubelet holds for giving out.

        Raises:
            PodResourcesError: it could not be had within the time.
        """
        request = pb.AllocatableResourcesRequest()
        answer = await self._ask("GetAllocatableResources", request, timeout_seconds)
        try:
            read = pb.AllocatableResourcesResponse.FromString(answer)
        except DecodeError as error:
            raise PodResourcesError(
                f"the kubelet at {self._socket} answered with what are no devices: {error}"
            ) from error
        return sum(
            len(devices.device_ids)
            for devices in read.devices
            if devices.resource_name == resource_name
        )

    async def _ask(self, method: str, request: Message, timeout_seconds: float) -> bytes:
        if self._channel is None:
            self._channel = socket_channel(self._socket)
        try:
            return await _asked(self._channel, method, request, timeout_seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                await self.close()
            limited = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            kind = PodResourcesLimited if limited else PodResourcesError
            raise kind(_told(error, self._socket)) from error

    async def close(self) -> None:
        """Close the channel; the next question makes another."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


async def _asked(
    channel: grpc.aio.Channel, method: str, request: Message, timeout_seconds: float
) -> bytes:
    call: grpc.aio.UnaryUnaryMultiCallable[Message, bytes]
    call = channel.unary_unary(
        f"/v1.PodResourcesLister/{method}",
        request_serializer=lambda each: each.SerializeToString(),
        # Read by us: gRPC would log what it cannot read, and hand over an error of its own.
        response_deserializer=None,
    )
    return await call(request, timeout=timeout_seconds)


def _listed(pod: pb.PodResources, resource_name: str) -> ListedPod:
    containers = tuple(
        ContainerDevices(
            name=container.name,
            device_ids=tuple(
                device_id
                for devices in container.devices
                if devices.resource_name == resource_name
                for device_id in devices.device_ids
            ),
        )
        for container in pod.containers
    )
    return ListedPod(pod=PodName(namespace=pod.namespace, name=pod.name), containers=containers)


def _told(error: grpc.aio.AioRpcError, socket: Path) -> str:
    detail = error.details() or error.code().name
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return f"nobody answers at {socket}: {detail}; in a container, mount its folder"
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return (
            f"the kubelet at {socket} has no PodResources v1 (Kubernetes 1.20 or later): {detail}"
        )
    return f"the kubelet at {socket} did not list its pods: {detail}"
