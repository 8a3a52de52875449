"""The PodResources service of the kubelet, version v1.

Rule 1: containers are listed with or without devices; init containers only if
they are sidecars.
Rule 2: a pod is listed from before its admission until it has ended.
Rule 3: all three methods share one rate limit.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc import aio

from gpushare_plugin.proto import podresources_v1_pb2 as wire
from gpushare_plugin.sim.kubelet.devices import WITHOUT_NUMA, DeviceAccounts
from gpushare_plugin.sim.kubelet.faults import FaultsInForce
from gpushare_plugin.sim.kubelet.journal import Journal, stopwatch
from gpushare_plugin.sim.kubelet.pod_table import PodRecord, PodTable
from gpushare_plugin.sim.kubelet.settings import KubeletSettings, PodResourcesShape
from gpushare_plugin.sim.kubelet.states import RpcRecord

SERVICE = "v1.PodResourcesLister"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResourcesParts:
    """What the service works with."""

    settings: KubeletSettings
    faults: FaultsInForce
    journal: Journal
    pods: PodTable
    accounts: DeviceAccounts
    rng: Random


class _RefusedError(Exception):
    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class PodResources:
    """Which pod holds which devices."""

    def __init__(self, parts: PodResourcesParts) -> None:
        self._parts = parts
        settings = parts.settings
        self._bucket = _Bucket(settings.list_calls_per_second, settings.list_burst_calls)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server needs to serve the three methods."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "List": self._method("List", wire.ListPodResourcesRequest, self._list),
                "Get": self._method("Get", wire.GetPodResourcesRequest, self._get),
                "GetAllocatableResources": self._method(
                    "GetAllocatableResources", wire.AllocatableResourcesRequest, self._allocatable
                ),
            },
        )

    def _method(
        self, name: str, request_type: type[Message], answer: Callable[[Any], Message]
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        async def serve(request: Message, context: aio.ServicerContext[Any, Any]) -> Message:
            answered: Message = wire.ListPodResourcesResponse()
            seconds, error = stopwatch(), "cancelled"
            try:
                await self._admit_call(name)
                answered = answer(request)
                error = ""
            except _RefusedError as refused:
                error = str(refused)
                await context.abort(refused.code, error)
            finally:
                self._parts.journal.rpc(
                    RpcRecord(
                        method=name,
                        resource="",
                        request_bytes=request.ByteSize(),
                        response_bytes=answered.ByteSize(),
                        seconds=seconds(),
                        error=error,
                    )
                )
            return answered

        return grpc.unary_unary_rpc_method_handler(
            serve,
            request_deserializer=request_type.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    async def _admit_call(self, name: str) -> None:
        faults = self._parts.faults.current
        if not self._bucket.take(now_seconds=asyncio.get_running_loop().time()):
            raise _RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        if faults.pod_resources_unimplemented:
            text = f"unknown method {name} for service {SERVICE}"
            raise _RefusedError(grpc.StatusCode.UNIMPLEMENTED, text)
        await asyncio.sleep(faults.list_seconds)

    # --------------------------------------------------------------------- answers

    def _list(self, _: wire.ListPodResourcesRequest) -> Message:
        ended_too = self._parts.settings.list_ended_pods
        return wire.ListPodResourcesResponse(
            pod_resources=[
                self._pod(record)
                for record in self._parts.pods
                if ended_too or not record.phase.ended
            ]
        )

    def _get(self, request: wire.GetPodResourcesRequest) -> Message:
        asked = (request.pod_namespace, request.pod_name)
        for record in self._parts.pods:
            if (record.spec.namespace, record.spec.name) == asked:
                return wire.GetPodResourcesResponse(pod_resources=self._pod(record))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        raise _RefusedError(grpc.StatusCode.UNKNOWN, text)

    def _allocatable(self, _: wire.AllocatableResourcesRequest) -> Message:
        accounts = self._parts.accounts
        entries: list[wire.ContainerDevices] = []
        for resource in accounts.names:
            by_node: dict[int, list[str]] = {}
            for device in accounts.devices(resource).values():
                for node in (device.numa_nodes or (WITHOUT_NUMA,)) if device.healthy else ():
                    by_node.setdefault(node, []).append(device.id)
            entries += self._entries(resource, by_node)
        return wire.AllocatableResourcesResponse(devices=entries)

    def _pod(self, record: PodRecord) -> wire.PodResources:
        names = [c.name for c, init in record.spec.in_start_order() if not init or c.restartable]
        return wire.PodResources(
            name=record.spec.name,
            namespace=record.spec.namespace,
            containers=[self._container(record.spec.uid, name) for name in names],
        )

    def _container(self, uid: str, name: str) -> wire.ContainerResources:
        held = self._parts.accounts.held(uid, name)
        entries = [
            entry
            for resource, holding in held.items()
            for entry in self._entries(resource, holding.ids_by_node)
        ]
        return wire.ContainerResources(
            name=name, devices=self._parts.rng.sample(entries, len(entries))
        )

    def _entries(
        self, resource: str, ids_by_node: Mapping[int, Iterable[str]]
    ) -> list[wire.ContainerDevices]:
        grouped = self._parts.settings.podresources_shape is PodResourcesShape.GROUPED
        return [
            wire.ContainerDevices(resource_name=resource, device_ids=ids, topology=_topology(node))
            for node, members in ids_by_node.items()
            for ids in ([list(members)] if grouped else [[i] for i in members])
        ]


def _topology(node: int) -> wire.TopologyInfo | None:
    return None if node == WITHOUT_NUMA else wire.TopologyInfo(nodes=[wire.NUMANode(ID=node)])


class _Bucket:
    """A token bucket: so many calls a second, so many at once."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = 0.0

    def take(self, *, now_seconds: float) -> bool:
        """Take a token if there is one."""
        gained = (now_seconds - self._filled_at) * self._per_second
        self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_at = now_seconds
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
