"""The device plugin's gRPC service: protobuf to core values and back, nothing more.

Rule 1: every stream of ListAndWatch begins with the full list and ends with its
client; many may be open at once, and none waits for another.
Rule 2: GetPreferredAllocation never answers an error: that would fail the pod.
Rule 3: Allocate is bounded in time: the kubelet sets no limit and admits no other
pod meanwhile.

(An inbound adapter in all but folder: the import contracts allow it protobuf.)
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from gpushare_plugin.core.injection import Injection
from gpushare_plugin.core.placement import Request
from gpushare_plugin.errors import AllocationRefused, Refusal
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.inventory import Inventory, Snapshot
from gpushare_plugin.node.resources import Devices, Resource
from gpushare_plugin.node.under_way import Calls, Streams
from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as pb

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]

log = event_logger(__name__)

SERVICE = "v1beta1.DevicePlugin"

STATUS_OF_REFUSAL = {
    Refusal.SEVERAL_CARDS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Refusal.UNKNOWN_DEVICE: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.UNHEALTHY_CARD: grpc.StatusCode.UNAVAILABLE,
    Refusal.NO_EXTENDER: grpc.StatusCode.FAILED_PRECONDITION,
    Refusal.WHOLE_CARDS: grpc.StatusCode.UNIMPLEMENTED,
    Refusal.CORES_WITHOUT_MEMORY: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.CORES_OVER_CARDS: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.CARD_COUNT: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.DEADLINE: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class DevicePluginService:
    """What the kubelet calls, for one resource."""

    def __init__(
        self,
        inventory: Inventory,
        resource: Resource,
        metrics: NodeMetrics,
        *,
        before_bad_news: Callable[[], Awaitable[None]],
        allocate_deadline_seconds: float,
    ) -> None:
        """`before_bad_news` is awaited before the kubelet is told of fewer healthy devices."""
        self._inventory = inventory
        self._resource = resource
        self._metrics = metrics
        self._before_bad_news = before_bad_news
        self._deadline_seconds = allocate_deadline_seconds
        self._chunks: dict[Devices, bytes] = {}
        self.calls = Calls()
        self.streams = Streams()

    def new_life(self) -> None:
        """Forget the streams of the life before, and have the first list ready."""
        self.streams = Streams()
        # The kubelet shows no unit of ours until it has the list, so it need not wait for it.
        self._message(self._inventory.snapshot())

    def _begin(self, context: "Context") -> None:
        """Count a call in that a pod hangs on, and out once its answer has been sent."""
        self.calls.begin()
        # Not where we return: the answer is still on its way to the kubelet then.
        context.add_done_callback(self._end)  # type: ignore[arg-type]  # no Protocol in the stubs

    def _end(self, _: object) -> None:
        self.calls.end()

    def _message(self, snapshot: Snapshot) -> bytes:
        """Return the full list, serialized, of chunks that are made once.

        Repeated fields of one message may stand in any number of pieces on the wire, so
        the pieces laid end to end are the message of all devices.
        """
        return b"".join(self._chunk(each) for each in self._resource.devices(snapshot))

    def _chunk(self, devices: Devices) -> bytes:
        if devices not in self._chunks:
            self._chunks[devices] = _listed(devices)
        return self._chunks[devices]

    async def options(self, _: pb.Empty, __: "Context") -> pb.DevicePluginOptions:
        """Answer GetDevicePluginOptions."""
        return pb.DevicePluginOptions(get_preferred_allocation_available=self._resource.prefers)

    async def list_and_watch(self, _: pb.Empty, __: "Context") -> AsyncIterator[bytes]:
        """Answer ListAndWatch: the full list now, and again at each change, until cancelled."""
        streams = self.streams
        streams.begin()
        log.info("stream_opened", streams=streams.open)
        try:
            snapshot = self._inventory.snapshot()
            while True:
                message = self._message(snapshot)
                log.debug("list_sent", revision=snapshot.revision, bytes=len(message))
                yield message
                before = snapshot
                snapshot = await self._inventory.changed_since(before.revision)
                if snapshot.healthy_units < before.healthy_units:
                    await self._before_bad_news()
                    snapshot = self._inventory.snapshot()
        finally:
            streams.end()
            log.info("stream_ended", streams=streams.open)

    async def preferred(
        self, request: pb.PreferredAllocationRequest, context: "Context"
    ) -> pb.PreferredAllocationResponse:
        """Answer GetPreferredAllocation."""
        began = time.perf_counter()
        self._begin(context)
        requests = [
            Request(
                available_ids=each.available_deviceIDs,
                must_include_ids=each.must_include_deviceIDs,
                size=each.allocation_size,
            )
            for each in request.container_requests
        ]
        response = pb.PreferredAllocationResponse()
        for device_ids in await self._resource.preferred(requests):
            response.container_responses.add(deviceIDs=device_ids)
        self._metrics.preferred_seconds.observe(time.perf_counter() - began)
        return response

    async def allocate(
        self, request: pb.AllocateRequest, context: "Context"
    ) -> pb.AllocateResponse:
        """Answer Allocate."""
        began = time.perf_counter()
        self._begin(context)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await self._allocate(request)
        except AllocationRefused as refusal:
            await self._refuse(context, refusal)
        except TimeoutError:
            text = f"no answer within {self._deadline_seconds:g} s; the pod must be made anew"
            await self._refuse(context, AllocationRefused(Refusal.DEADLINE, text))
        finally:
            self._metrics.allocate_seconds.observe(time.perf_counter() - began)
        raise AssertionError("abort() returned")

    async def _allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        if not request.container_requests:
            raise AllocationRefused(Refusal.BAD_REQUEST, "no container in the request")
        containers = (each.devices_ids for each in request.container_requests)
        injections = await self._resource.allocate(containers)
        return pb.AllocateResponse(container_responses=map(_to_wire, injections))

    async def _refuse(self, context: "Context", refusal: AllocationRefused) -> None:
        self._metrics.allocate_refusals.labels(refusal.cause.value).inc()
        await context.abort(STATUS_OF_REFUSAL[refusal.cause], f"gpushare: {refusal}")

    async def pre_start(
        self, _: pb.PreStartContainerRequest, __: "Context"
    ) -> pb.PreStartContainerResponse:
        """Answer PreStartContainer, which our options do not ask for."""
        return pb.PreStartContainerResponse()

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the service for a gRPC server."""
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "GetDevicePluginOptions": unary(
                self.options, pb.Empty.FromString, pb.DevicePluginOptions.SerializeToString
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self.list_and_watch, pb.Empty.FromString, bytes
            ),
            "GetPreferredAllocation": unary(
                self.preferred,
                pb.PreferredAllocationRequest.FromString,
                pb.PreferredAllocationResponse.SerializeToString,
            ),
            "Allocate": unary(
                self.allocate,
                pb.AllocateRequest.FromString,
                pb.AllocateResponse.SerializeToString,
            ),
            "PreStartContainer": unary(
                self.pre_start,
                pb.PreStartContainerRequest.FromString,
                pb.PreStartContainerResponse.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)


def _listed(devices: Devices) -> bytes:
    topology = None
    if devices.numa_node is not None:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=devices.numa_node)])
    found = [
        pb.Device(ID=device_id, health=devices.state.value, topology=topology)
        for device_id in devices.ids()
    ]
    return pb.ListAndWatchResponse(devices=found).SerializeToString()


def _to_wire(injection: Injection) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=injection.envs,
        devices=[
            pb.DeviceSpec(container_path=path, host_path=path, permissions="rw")
            for path in injection.device_nodes
        ],
        annotations=injection.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in injection.cdi_devices],
    )
