"""The other end of the simulated kubelet in its tests: a tiny plugin, and a PodResources reader."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf.message import Message
from grpc import aio

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.proto import podresources_v1_pb2 as pod_wire
from gpushare_plugin.sim.kubelet import ContainerSpec, KubeletSettings, PodSpec, SimKubelet

RESOURCE = "example.com/gpu-mem"
OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.default_authority", "localhost")]

Context = aio.ServicerContext[Any, Any]
Devices = Iterable[wire.Device]


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name in 107 bytes."""
    folder = Path(mkdtemp(prefix="gs"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def settings_in(folder: Path, **changes: Any) -> KubeletSettings:
    return KubeletSettings(
        plugin_dir=folder / "plugins",
        pod_resources_socket=folder / "pods" / "kubelet.sock",
        **changes,
    )


@asynccontextmanager
async def running_kubelet(**changes: Any) -> AsyncIterator[SimKubelet]:
    with short_folder() as folder:
        async with SimKubelet(settings_in(folder, **changes)) as kubelet:
            yield kubelet


def devices(count: int, *, prefix: str = "d", unhealthy: int = 0) -> list[wire.Device]:
    """Devices d-0, d-1, ...; the first few unhealthy."""
    return [
        wire.Device(ID=f"{prefix}-{n}", health="Unhealthy" if n < unhealthy else "Healthy")
        for n in range(count)
    ]


def pod(name: str, units: int = 0, **changes: Any) -> PodSpec:
    """A pod of one container, unless containers are given."""
    main = ContainerSpec(name="main", requests={RESOURCE: units} if units else {})
    return PodSpec(**{"name": name, "uid": f"uid-{name}", "containers": (main,)} | changes)


async def answer_plainly(ids: list[str], context: Context) -> wire.AllocateResponse:
    envs = {"IDS": ",".join(sorted(ids))}
    return wire.AllocateResponse(container_responses=[wire.ContainerAllocateResponse(envs=envs)])


async def prefer_the_first(
    request: wire.ContainerPreferredAllocationRequest, context: Context
) -> list[str]:
    must = list(request.must_include_deviceIDs)
    rest = sorted({*request.available_deviceIDs} - {*must})
    return (must + rest)[: request.allocation_size]


class TinyPlugin:
    """A device plugin in a page: serves its socket, registers when told, remembers its calls."""

    def __init__(
        self,
        kubelet: SimKubelet,
        listed: Devices,
        *,
        resource: str = RESOURCE,
        endpoint: str = "tiny.sock",
        prefer: bool = False,
        pre_start: bool = False,
    ) -> None:
        self.kubelet = kubelet
        self.resource = resource
        self.endpoint = endpoint
        self.options = wire.DevicePluginOptions(
            pre_start_required=pre_start, get_preferred_allocation_available=prefer
        )
        self.listed = list(listed)
        self.calls: list[tuple[str, Any]] = []
        self._called = asyncio.Condition()
        self.open_streams = 0
        self.streams_over = False
        self.stream_ended = asyncio.Event()
        self.on_allocate: Callable[[list[str], Context], Awaitable[wire.AllocateResponse]] = (
            answer_plainly
        )
        self.on_preferred: Callable[
            [wire.ContainerPreferredAllocationRequest, Context], Awaitable[list[str]]
        ] = prefer_the_first
        self.on_pre_start: Callable[[list[str], Context], Awaitable[None]] | None = None
        self._news: list[asyncio.Event] = []
        self._server: aio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.serve()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def path(self) -> Path:
        return self.kubelet.settings.plugin_dir / self.endpoint

    async def serve(self) -> None:
        self._server = aio.server(handlers=[self._handler()])
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def register(self, **changes: Any) -> None:
        request = {
            "version": "v1beta1",
            "endpoint": self.endpoint,
            "resource_name": self.resource,
            "options": self.options,
        }
        await register(self.kubelet, **request | changes)

    async def come_up(self) -> None:
        """Register, and wait until the kubelet has the devices."""
        await self.register()
        healthy = sum(1 for device in self.listed if device.health == "Healthy")
        await self.kubelet.capacity(self.resource, equals=len(self.listed))
        await self.kubelet.allocatable(self.resource, equals=healthy)

    def send(self, listed: Devices) -> None:
        """Send another list on every open stream."""
        self.listed = list(listed)
        for news in self._news:
            news.set()

    def end_streams(self) -> None:
        """Return from ListAndWatch, though the server goes on."""
        self.streams_over = True
        self.send(self.listed)

    def called(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def until_called(self, method: str, times: int = 1) -> None:
        async with asyncio.timeout(2), self._called:
            await self._called.wait_for(lambda: len(self.called(method)) >= times)

    async def _note(self, method: str, request: Any) -> None:
        async with self._called:
            self.calls.append((method, request))
            self._called.notify_all()

    # ----------------------------------------------------------------------- service

    def _handler(self) -> grpc.GenericRpcHandler:
        def unary(method: Any, request: type[Message]) -> "grpc.RpcMethodHandler[Any, Any]":
            return grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )

        return grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": unary(self._get_options, wire.Empty),
                "GetPreferredAllocation": unary(self._prefer, wire.PreferredAllocationRequest),
                "Allocate": unary(self._allocate, wire.AllocateRequest),
                "PreStartContainer": unary(self._pre_start, wire.PreStartContainerRequest),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch,
                    request_deserializer=wire.Empty.FromString,
                    response_serializer=wire.ListAndWatchResponse.SerializeToString,
                ),
            },
        )

    async def _get_options(self, request: wire.Empty, _: Context) -> Message:
        await self._note("GetDevicePluginOptions", request)
        return self.options

    async def _list_and_watch(
        self, request: wire.Empty, _: Context
    ) -> AsyncIterator[wire.ListAndWatchResponse]:
        await self._note("ListAndWatch", request)
        news = asyncio.Event()
        self._news.append(news)
        self.open_streams += 1
        try:
            while not self.streams_over:
                yield wire.ListAndWatchResponse(devices=self.listed)
                await news.wait()
                news.clear()
        finally:
            self._news.remove(news)
            self.open_streams -= 1
            self.stream_ended.set()

    async def _prefer(
        self, request: wire.PreferredAllocationRequest, context: Context
    ) -> wire.PreferredAllocationResponse:
        (container,) = request.container_requests
        await self._note("GetPreferredAllocation", container)
        ids = await self.on_preferred(container, context)
        answer = wire.ContainerPreferredAllocationResponse(deviceIDs=ids)
        return wire.PreferredAllocationResponse(container_responses=[answer])

    async def _allocate(
        self, request: wire.AllocateRequest, context: Context
    ) -> wire.AllocateResponse:
        (container,) = request.container_requests
        await self._note("Allocate", list(container.devices_ids))
        return await self.on_allocate(list(container.devices_ids), context)

    async def _pre_start(self, request: wire.PreStartContainerRequest, context: Context) -> Message:
        await self._note("PreStartContainer", (list(request.devices_ids), context))
        if self.on_pre_start is not None:
            await self.on_pre_start(list(request.devices_ids), context)
        return wire.PreStartContainerResponse()


async def register(kubelet: SimKubelet, **fields: Any) -> None:
    async with aio.insecure_channel(
        f"unix:{kubelet.settings.plugin_dir}/kubelet.sock", options=OPTIONS
    ) as channel:
        call: aio.UnaryUnaryMultiCallable[Any, wire.Empty] = channel.unary_unary(
            "/v1beta1.Registration/Register",
            request_serializer=wire.RegisterRequest.SerializeToString,
            response_deserializer=wire.Empty.FromString,
        )
        await call(wire.RegisterRequest(**fields), timeout=8)


@asynccontextmanager
async def pod_resources(kubelet: SimKubelet) -> AsyncIterator["PodResourcesReader"]:
    async with aio.insecure_channel(
        f"unix:{kubelet.settings.pod_resources_socket}", options=OPTIONS
    ) as channel:
        yield PodResourcesReader(channel)


class PodResourcesReader:
    """A client of all three methods."""

    def __init__(self, channel: aio.Channel) -> None:
        self._channel = channel

    async def pods(self) -> list[pod_wire.PodResources]:
        request = pod_wire.ListPodResourcesRequest()
        answer = await self._call("List", request, pod_wire.ListPodResourcesResponse)
        return list(answer.pod_resources)

    async def get(self, namespace: str, name: str) -> pod_wire.PodResources:
        request = pod_wire.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        answer = await self._call("Get", request, pod_wire.GetPodResourcesResponse)
        found: pod_wire.PodResources = answer.pod_resources
        return found

    async def allocatable(self) -> list[pod_wire.ContainerDevices]:
        request = pod_wire.AllocatableResourcesRequest()
        answer = await self._call(
            "GetAllocatableResources", request, pod_wire.AllocatableResourcesResponse
        )
        return [*answer.devices]

    async def _call(self, method: str, request: Message, answer: type[Message]) -> Any:
        call: aio.UnaryUnaryMultiCallable[Any, Any] = self._channel.unary_unary(
            f"/v1.PodResourcesLister/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return await call(request, timeout=5)


async def plugin_that_never_allocates(folder: Path) -> None:
    """Serve and register in this process; say on stdout when Allocate has come."""

    async def never(ids: list[str], context: Context) -> wire.AllocateResponse:
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
        raise AssertionError(ids)

    async with TinyPlugin(SimKubelet(settings_in(folder)), devices(4)) as plugin:
        plugin.on_allocate = never
        await plugin.register()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(plugin_that_never_allocates(Path(sys.argv[1])))
