"""An empty device plugin: the least that grpc.aio takes to be one, run as a process.

It decodes what it is sent, answers with empty messages, and registers. Every figure of
the node daemon stands beside this one's.

    python -m bench.empty_plugin PLUGIN_DIR RESOURCE [watch]

`watch` lets it register again with a new kubelet, by looking every 10 ms; without it
the process does nothing at all when it is not called.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as pb

LOOK_SECONDS = 0.01


async def main(plugin_dir: str, resource: str, *, watch: bool) -> None:
    """Serve and register, again with each new kubelet where that is watched for."""
    kubelet = f"{plugin_dir}/kubelet.sock"
    life = 0
    while True:
        seen = _identity(kubelet)
        name = f"empty-{life}.sock"
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_handler(),))
        server.add_insecure_port(f"unix:{plugin_dir}/{name}")
        await server.start()
        await _register(kubelet, name, resource)
        if not watch:
            await server.wait_for_termination()
        while _identity(kubelet) in {None, seen}:  # noqa: ASYNC110  # a file tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        await server.stop(grace=None)
        life += 1


async def _register(kubelet: str, name: str, resource: str) -> None:
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
    async with grpc.aio.insecure_channel(f"unix:{kubelet}", options=options) as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register",
            request_serializer=pb.RegisterRequest.SerializeToString,
            response_deserializer=pb.Empty.FromString,
        )
        await call(pb.RegisterRequest(version="v1beta1", endpoint=name, resource_name=resource))


def _handler() -> grpc.GenericRpcHandler:
    async def list_and_watch(_: pb.Empty, __: Any) -> AsyncIterator[pb.ListAndWatchResponse]:
        yield pb.ListAndWatchResponse()
        await asyncio.Event().wait()

    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "GetDevicePluginOptions": _unary(pb.Empty, pb.DevicePluginOptions),
        "GetPreferredAllocation": _unary(
            pb.PreferredAllocationRequest, pb.PreferredAllocationResponse
        ),
        "Allocate": _unary(pb.AllocateRequest, pb.AllocateResponse),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(
            list_and_watch,
            request_deserializer=pb.Empty.FromString,
            response_serializer=pb.ListAndWatchResponse.SerializeToString,
        ),
    }
    return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)


def _unary(request: Any, response: Any) -> "grpc.RpcMethodHandler[Any, Any]":
    async def answer(_: Any, __: Any) -> Any:
        return response()

    return grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=request.FromString,
        response_serializer=response.SerializeToString,
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # pathlib is an import more, and this is the floor
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], watch="watch" in sys.argv[3:]))
