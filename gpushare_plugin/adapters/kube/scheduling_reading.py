"""What only the extender reads and writes: Leases, lists of unhealthy cards, Bindings.

Knows no HTTP, and nothing of JSON but `wire`.
"""

from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.reading import Reader, versioned
from gpushare_plugin.ports.cluster import Versioned
from gpushare_plugin.ports.scheduling import Binding, Lease, UnhealthyList

UNHEALTHY_PREFIX = "unhealthy-gpu-"
"""What the ConfigMaps' names begin with, before the node's; as the original gpushare has them."""

_LEASE_HEAD = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}

_config_map = wire.decoding(wire.ConfigMapObject)
_lease = wire.decoding(wire.LeaseObject)
_document = wire.decoding(wire.LeaseDocument)


def unhealthy_list_reader() -> Reader[UnhealthyList]:
    """Return the reader of ConfigMaps; it keeps those that are named after a node."""
    return Reader(_read_unhealthy_list, keeps=lambda each: bool(each.node_name))


def _read_unhealthy_list(body: wire.Json) -> Versioned[UnhealthyList]:
    found = _config_map(body)
    name = found.metadata.name
    node_name = name.removeprefix(UNHEALTHY_PREFIX) if name.startswith(UNHEALTHY_PREFIX) else ""
    text = found.data.gpus if found.data is not None else ""
    return versioned(found.metadata, UnhealthyList(node_name=node_name, text=text))


def lease_reader() -> Reader[Lease]:
    """Return the reader of Leases."""
    return Reader(_read_lease)


def _read_lease(body: wire.Json) -> Versioned[Lease]:
    found = _lease(body)
    meta, spec = found.metadata, found.spec
    lease = Lease(
        namespace=meta.namespace,
        name=meta.name,
        holder=spec.holder_identity or "",
        duration_seconds=spec.lease_duration_seconds or 0,
        acquire_time=spec.acquire_time or "",
        renew_time=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
        version=meta.resource_version,
        document=bytes(body),
    )
    return versioned(meta, lease)


def new_lease(lease: Lease) -> bytes:
    """Return the body that creates a Lease."""
    metadata = {"namespace": lease.namespace, "name": lease.name}
    return wire.encoded({**_LEASE_HEAD, "metadata": metadata, "spec": _spec(lease)})


def changed_lease(lease: Lease) -> bytes:
    """Return the body that replaces the Lease that was read; what we do not know stays."""
    read = _document(lease.document)
    spec = {**read.spec, **_spec(lease)}
    return wire.encoded({**_LEASE_HEAD, "metadata": read.metadata, "spec": spec})


def _spec(lease: Lease) -> dict[str, str | int | None]:
    # An empty time and a duration of 0 are refused; a holder may be empty.
    return {
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": lease.duration_seconds or None,
        "acquireTime": lease.acquire_time or None,
        "renewTime": lease.renew_time or None,
        "leaseTransitions": lease.transitions,
    }


def binding_body(binding: Binding) -> bytes:
    """Return the body of a Binding."""
    metadata = {
        "namespace": binding.namespace,
        "name": binding.name,
        "uid": binding.uid,
        "annotations": binding.annotations,
    }
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node_name}
    return wire.encoded(
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    )
