"""The kubelet's Registration service, and the life of each plugin that registered.

Rule 1: Register dials the plugin and asks for its options before it answers;
ListAndWatch is opened after.
Rule 2: `_clients` has one client a resource, by name alone. When any stream of
the resource ends, whichever client has the name then is hung up on: a newer
plugin falls with the older one. That is the kubelet's bug, kept on purpose.
Rule 3: `endpoints` is whom to call; it keeps a plugin that is gone, stopped.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc import aio

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet.devices import Device, DeviceAccounts
from gpushare_plugin.sim.kubelet.endpoint import Endpoint, PluginCallError
from gpushare_plugin.sim.kubelet.faults import FaultsInForce
from gpushare_plugin.sim.kubelet.journal import Journal
from gpushare_plugin.sim.kubelet.names import refusal
from gpushare_plugin.sim.kubelet.settings import KubeletSettings
from gpushare_plugin.sim.kubelet.states import RegistrationRecord
from gpushare_plugin.sim.kubelet.tasks import LifeTasks

HEALTHY = "Healthy"
_Context = aio.ServicerContext[wire.RegisterRequest, wire.Empty]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationParts:
    """What the service works with."""

    settings: KubeletSettings
    faults: FaultsInForce
    journal: Journal
    accounts: DeviceAccounts
    save: Callable[[], None]
    """Write the checkpoint."""
    tasks: LifeTasks


class Registration:
    """Plugins come and go here."""

    def __init__(self, parts: RegistrationParts) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self._parts = parts
        self._clients: dict[str, Endpoint] = {}
        self._dialled: set[Endpoint] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server needs to serve v1beta1.Registration."""
        register = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=wire.RegisterRequest.FromString,
            response_serializer=wire.Empty.SerializeToString,
        )
        return grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register})

    async def hang_up(self) -> None:
        """End every stream and call to a plugin at once."""
        for endpoint in self._dialled.copy():
            await self._close(endpoint)

    async def drop(self, resource: str) -> None:
        """Hang up on one resource's plugin, as if its stream had broken; nobody dials again."""
        if endpoint := self._clients.get(resource):
            await self._close(endpoint)

    async def _close(self, endpoint: Endpoint) -> None:
        self._dialled.discard(endpoint)
        await endpoint.close()

    # -------------------------------------------------------------------- Register

    async def _register(self, request: wire.RegisterRequest, context: _Context) -> wire.Empty:
        faults = self._parts.faults.current
        await asyncio.sleep(faults.register_seconds)
        if faults.register_hangs:
            await asyncio.Event().wait()
        if self._parts.faults.take_refusal():
            self._record(request, error=faults.refuse_text)
            await context.abort(grpc.StatusCode[faults.refuse_status], faults.refuse_text)
        error = refusal(version=request.version, resource=request.resource_name)
        if error:
            self._record(request, error=error)
        else:
            # The kubelet goes on with a registration whose caller has given up.
            name = f"connect {request.resource_name} at {request.endpoint}"
            connecting = self._parts.tasks.spawn(self._connect(request), name=name)
            error = await asyncio.shield(connecting)
        if error:
            await context.abort(grpc.StatusCode.UNKNOWN, error)
        return wire.Empty()

    async def _connect(self, request: wire.RegisterRequest) -> str:
        resource = request.resource_name
        endpoint = self._endpoint(request)
        self._dialled.add(endpoint)
        self._clients[resource] = endpoint
        try:
            await endpoint.dial(timeout_seconds=self._parts.settings.dial_seconds)
            endpoint.options = await self._options(endpoint, request)
        except PluginCallError as failure:
            # By name again: a failed newcomer takes the name from whoever had it.
            self._clients.pop(resource, None)
            await self._close(endpoint)
            self._record(request, error=str(failure))
            return str(failure)
        self.endpoints[resource] = endpoint
        self._parts.accounts.connect(resource)
        self._record(request, options=endpoint.options)
        if not self._parts.faults.current.withhold_list_and_watch:
            self._parts.tasks.spawn(
                self._watch(endpoint), name=f"watch {resource} at {endpoint.path}"
            )
        return ""

    async def _options(
        self, endpoint: Endpoint, request: wire.RegisterRequest
    ) -> wire.DevicePluginOptions:
        if self._parts.settings.options_from_register:
            return request.options
        try:
            return await endpoint.get_options()
        except PluginCallError as failure:
            raise PluginCallError(f"failed to get device plugin options: {failure}") from failure

    def _endpoint(self, request: wire.RegisterRequest) -> Endpoint:
        # Joined as text: "../x.sock" leads out of the folder, "/x.sock" does not.
        path = os.path.normpath(f"{self._parts.settings.plugin_dir}/{request.endpoint}")
        return Endpoint(
            resource=request.resource_name,
            path=Path(path),
            receive_limit_bytes=self._parts.settings.receive_limit_bytes,
            journal=self._parts.journal,
        )

    def _record(
        self,
        request: wire.RegisterRequest,
        *,
        options: wire.DevicePluginOptions | None = None,
        error: str = "",
    ) -> None:
        used = options or request.options
        self._parts.journal.registration(
            RegistrationRecord(
                endpoint=request.endpoint,
                resource=request.resource_name,
                version=request.version,
                pre_start_required=used.pre_start_required,
                get_preferred_allocation_available=used.get_preferred_allocation_available,
                unix_seconds=time.time(),
                error=error,
            )
        )

    # ---------------------------------------------------------------- ListAndWatch

    async def _watch(self, endpoint: Endpoint) -> str:
        journal, resource = self._parts.journal, endpoint.resource
        number = journal.stream_opened(resource=resource, endpoint=endpoint.path.name)
        try:
            async for message, size_bytes in endpoint.list_and_watch():
                self._parts.accounts.replace(resource, _devices(message))
                self._parts.save()
                journal.stream_message(number, size_bytes=size_bytes)
        except PluginCallError as failure:
            await self._end_of_stream(endpoint)
            journal.stream_ended(number, error=str(failure))
            return str(failure)
        except asyncio.CancelledError:
            # A kubelet that stops reports nothing more: the node keeps its counts.
            journal.stream_ended(number, error="the kubelet stopped")
            raise
        return ""

    async def _end_of_stream(self, endpoint: Endpoint) -> None:
        resource = endpoint.resource
        named = self._clients.pop(resource, None)
        await self._close(endpoint)
        if named is None:
            return
        await self._close(named)
        if serving := self.endpoints.get(resource):
            serving.stopped = True
        loop, parts = asyncio.get_running_loop(), self._parts
        parts.accounts.disconnect(resource, now_seconds=loop.time())
        loop.call_later(parts.settings.endpoint_grace_seconds, parts.journal.changed)
        parts.save()


def _devices(message: wire.ListAndWatchResponse) -> list[Device]:
    return [
        Device(
            id=device.ID,
            healthy=device.health == HEALTHY,
            numa_nodes=tuple(node.ID for node in device.topology.nodes),
        )
        for device in message.devices
    ]
