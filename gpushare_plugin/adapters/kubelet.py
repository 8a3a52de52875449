"""The kubelet's registration service, and our own plugin as the kubelet sees it."""

from pathlib import Path

import grpc
import grpc.aio

from gpushare_plugin.adapters.channels import socket_channel
from gpushare_plugin.errors import KubeletRefused, KubeletUnavailable
from gpushare_plugin.ports import Registration
from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as pb

API_VERSION = "v1beta1"

_NEVER = ("is not supported by kubelet", "is invalid")
"""What the kubelet says (with code UNKNOWN) of a version or a name that it will never take."""


class KubeletClient:
    """Registers plugins; see `ports.Kubelet`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def register(self, registration: Registration, *, timeout_seconds: float) -> None:
        """Register a plugin that is already serving; see `ports.Kubelet`."""
        request = pb.RegisterRequest(
            version=API_VERSION,
            endpoint=registration.endpoint,
            resource_name=registration.resource_name,
            options=pb.DevicePluginOptions(
                get_preferred_allocation_available=registration.preferred_allocation
            ),
        )
        async with socket_channel(self._socket) as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=pb.RegisterRequest.SerializeToString,
                response_deserializer=pb.Empty.FromString,
            )
            try:
                await call(request, timeout=timeout_seconds)
            except grpc.aio.AioRpcError as error:
                raise _told(error, self._socket, registration.resource_name) from error


def _told(
    error: grpc.aio.AioRpcError, socket: Path, resource_name: str
) -> KubeletRefused | KubeletUnavailable:
    detail = error.details() or error.code().name
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return KubeletRefused(
            f"the kubelet at {socket} knows no device plugin API {API_VERSION} ({detail}):"
            " Kubernetes 1.10 or later is needed"
        )
    if any(words in detail for words in _NEVER):
        return KubeletRefused(
            f"the kubelet refuses {resource_name} with API {API_VERSION}: {detail};"
            " another --resource-name or another kubelet is needed"
        )
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return KubeletUnavailable(f"no kubelet answers at {socket}: {detail}")
    return KubeletUnavailable(f"the kubelet at {socket} did not register {resource_name}: {detail}")


async def plugin_answers(socket: Path, *, timeout_seconds: float) -> bool:
    """Say whether a plugin answers on its socket, asked as the kubelet asks."""
    async with socket_channel(socket) as channel:
        call = channel.unary_unary(
            "/v1beta1.DevicePlugin/GetDevicePluginOptions",
            request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.DevicePluginOptions.FromString,
        )
        try:
            await call(pb.Empty(), timeout=timeout_seconds)
        except grpc.aio.AioRpcError:
            return False
    return True
