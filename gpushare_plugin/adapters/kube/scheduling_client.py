"""The calls that only the extender makes: binding, leading, touching pods.

Rule 1: one call is one try within the time that its caller gives it; what may be done
after a failure is the caller's to know (`ports.scheduling`).
Rule 2: what is written names what it was made for: a Binding and a patch the pod's UID,
a Lease the version that was read.
"""

from gpushare_plugin.adapters.kube.failures import Call
from gpushare_plugin.adapters.kube.listing import listed
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.requests import list_call, merge_patch, read_object, selected
from gpushare_plugin.adapters.kube.scheduling_reading import (
    binding_body,
    changed_lease,
    lease_reader,
    new_lease,
)
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.ports.cluster import StatusPatch
from gpushare_plugin.ports.scheduling import Binding, Lease

_LEASES = "/apis/coordination.k8s.io/v1"


class SchedulingClient:
    """Binder, LeaseStore and PodToucher of `ports.scheduling`. Every method raises ApiError."""

    def __init__(self, transport: Transport, *, pods: Reader[Pod]) -> None:
        """`pods` says what of a pod is read; whether it keeps the pod does not matter here."""
        self._transport = transport
        self._pods = pods
        self._leases = lease_reader()

    # ------------------------------------------------------------------------- pods

    async def bind(self, binding: Binding, *, timeout_seconds: float) -> None:
        """Put a pod on a node, with its annotations, by one request."""
        call = Call(
            verb="create",
            resource="pods/binding",
            namespace=binding.namespace,
            name=binding.name,
            body=binding_body(binding),
            timeout_seconds=timeout_seconds,
        )
        await self._transport.answer(call)

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        """Return a pod as it is in etcd now."""
        call = Call(
            verb="get",
            resource="pods",
            namespace=namespace,
            name=name,
            timeout_seconds=timeout_seconds,
        )
        return await read_object(self._transport, call, self._pods)

    async def list_namespace_pods(
        self, namespace: str, *, label_selector: str, timeout_seconds: float
    ) -> tuple[Pod, ...]:
        """Return a namespace's pods of these labels; the time is for each page of 100."""
        query = selected(label_selector=label_selector)
        call = list_call("pods", query, namespace=namespace, timeout_seconds=timeout_seconds)
        found = await listed(self._transport, call, Reader(self._pods.read))
        return tuple(each.item for each in found.objects)

    async def touch_pod(
        self, namespace: str, name: str, patch: StatusPatch, *, timeout_seconds: float
    ) -> Pod:
        """Change a pod's labels and annotations through `pods/status`."""
        call = Call(
            verb="patch",
            resource="pods/status",
            namespace=namespace,
            name=name,
            body=merge_patch(patch),
            timeout_seconds=timeout_seconds,
        )
        return await read_object(self._transport, call, self._pods)

    # ------------------------------------------------------------------------- leases

    async def get_lease(self, namespace: str, name: str, *, timeout_seconds: float) -> Lease:
        """Return a Lease as it is in etcd now."""
        return await self._lease("get", namespace, name, b"", timeout_seconds)

    async def create_lease(self, lease: Lease, *, timeout_seconds: float) -> Lease:
        """Create a Lease."""
        return await self._lease("create", lease.namespace, "", new_lease(lease), timeout_seconds)

    async def update_lease(self, lease: Lease, *, timeout_seconds: float) -> Lease:
        """Replace a Lease that was read, if it is of that version still."""
        body = changed_lease(lease)
        return await self._lease("update", lease.namespace, lease.name, body, timeout_seconds)

    async def _lease(
        self, verb: str, namespace: str, name: str, body: bytes, timeout_seconds: float
    ) -> Lease:
        call = Call(
            verb=verb,
            resource="leases",
            api=_LEASES,
            namespace=namespace,
            name=name,
            body=body,
            timeout_seconds=timeout_seconds,
        )
        return await read_object(self._transport, call, self._leases)
