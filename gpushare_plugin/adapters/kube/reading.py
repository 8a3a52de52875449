"""From the API server's objects to values: what a pod asks for, what a node says.

Rule 1: what cannot be understood is told, never passed over: a pod comes with its
`fault` (object, field, found, expected), a node is an error.
Rule 2: limits are what counts, as in Kubernetes: for an extended resource the API
server makes requests equal to them, and a pod where they differ is at fault.
Knows no HTTP, and nothing of JSON but `wire`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.failures import Answer
from gpushare_plugin.core.pods import Container, ContainerKind, Phase, Pod
from gpushare_plugin.core.quantity import parse_quantity
from gpushare_plugin.errors import QuantityError
from gpushare_plugin.ports.cluster import (
    Bookmark,
    Deleted,
    Node,
    Present,
    Versioned,
    WatchEvent,
)

T = TypeVar("T")

_page = wire.decoding(wire.Page)
_envelope = wire.decoding(wire.Envelope)
_any_object = wire.decoding(wire.AnyObject)
_pod = wire.decoding(wire.PodObject)
_outline = wire.decoding(wire.PodOutline)
_node = wire.decoding(wire.NodeObject)

_PHASES: Mapping[str, Phase] = {"": Phase.PENDING, **{phase.value: phase for phase in Phase}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list."""

    version: str
    next_page: str
    """The token of the next one; empty for the last."""
    objects: tuple[wire.Json, ...]
    """For `Reader.read`."""


def page(body: bytes) -> Page:
    """Read one page of a list, its objects still raw; raises wire.Garbled."""
    found = _page(body)
    if not found.metadata.resource_version:
        # Whatever this is, taking it for an empty list would end every pod that is known.
        raise wire.Garbled("no metadata.resourceVersion, expected that of a list")
    return Page(
        version=found.metadata.resource_version,
        next_page=found.metadata.continue_,
        objects=tuple(found.items or ()),
    )


class Reader(Generic[T]):
    """Reads the objects of one kind."""

    def __init__(self, read: Callable[[wire.Json], Versioned[T]]) -> None:
        """`read` makes a value of one object's JSON; it raises wire.Garbled."""
        self.read = read

    def event(self, line: bytes) -> WatchEvent[T] | Answer:
        """Read one line of a watch; an Answer is the server's refusal to go on.

        Raises:
            wire.Garbled: it is no line of a watch.
        """
        envelope = _envelope(line)
        match envelope.type:
            case "ADDED" | "MODIFIED":
                return Present(self.read(envelope.object))
            case "DELETED":
                return Deleted(self.read(envelope.object))
            case "BOOKMARK":
                return Bookmark(_any_object(envelope.object).metadata.resource_version)
            case "ERROR":
                return wire.refusal(0, envelope.object)
            case other:
                raise wire.Garbled(f"event {other!r}, expected one of the five of a watch")


def _versioned(meta: wire.Metadata, item: T) -> Versioned[T]:
    if not (meta.uid and meta.name and meta.resource_version):
        raise wire.Garbled("no metadata.uid, name or resourceVersion, expected those of an object")
    return Versioned(uid=meta.uid, version=meta.resource_version, item=item)


def node_reader() -> Reader[Node]:
    """Return the reader of nodes."""
    return Reader(_read_node)


def _read_node(body: wire.Json) -> Versioned[Node]:
    found = _node(body)
    meta, status = found.metadata, found.status
    node = Node(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        capacity=status.capacity,
        allocatable=status.allocatable,
        ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions),
        unschedulable=found.spec.unschedulable,
    )
    return _versioned(meta, node)


def pod_reader(
    resources: Iterable[str], *, annotation_prefixes: tuple[str, ...] = ("",)
) -> Reader[Pod]:
    """Return the reader of pods: only these resources, only annotations that begin so."""
    return Reader(_Pods(frozenset(resources), annotation_prefixes).read)


class _Pods:
    def __init__(self, resources: frozenset[str], annotation_prefixes: tuple[str, ...]) -> None:
        self._resources = resources
        self._prefixes = annotation_prefixes

    def read(self, body: wire.Json) -> Versioned[Pod]:
        try:
            found, fault = _pod(body), ""
        except wire.Garbled as error:
            # It still holds its node's units: all is read of it that can be.
            rest = _outline(body)
            spec = wire.PodSpec(node_name=rest.spec.node_name)
            found = wire.PodObject(metadata=rest.metadata, spec=spec, status=rest.status)
            fault = str(error)
        meta = found.metadata
        faults = [fault] if fault else []
        pod = Pod(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            containers=tuple(self._containers(found.spec, faults)),
            node_name=found.spec.node_name,
            phase=_PHASES.get(found.status.phase, Phase.UNKNOWN),
            terminating=meta.deletion_timestamp is not None,
            annotations=self._annotations(meta.annotations),
            fault=f"pod {meta.namespace}/{meta.name}: {'; '.join(faults)}" if faults else "",
        )
        return _versioned(meta, pod)

    def _annotations(self, found: Mapping[str, str]) -> Mapping[str, str]:
        if self._prefixes == ("",):
            return found
        return {key: text for key, text in found.items() if key.startswith(self._prefixes)}

    def _containers(self, spec: wire.PodSpec, faults: list[str]) -> Iterator[Container]:
        for container in spec.init_containers:
            always = container.restart_policy == "Always"
            kind = ContainerKind.SIDECAR if always else ContainerKind.INIT
            yield self._container(container, kind, "initContainers", faults)
        for container in spec.containers:
            yield self._container(container, ContainerKind.MAIN, "containers", faults)

    def _container(
        self, found: wire.ContainerSpec, kind: ContainerKind, field: str, faults: list[str]
    ) -> Container:
        requests = {}
        asked = found.resources.limits.keys() | found.resources.requests.keys()
        for resource in sorted(asked & self._resources):
            try:
                if units := _units(found.resources, resource):
                    requests[resource] = units
            except QuantityError as error:
                faults.append(f"spec.{field}[{found.name}].resources.{error}")
        return Container(name=found.name, kind=kind, requests=requests)


def _units(resources: wire.Resources, resource: str) -> int:
    limit, request = resources.limits.get(resource), resources.requests.get(resource)
    if limit is None:
        raise QuantityError(
            f"requests[{resource}] is {request!r} without a limit, expected the same in limits"
        )
    units = _parsed("limits", resource, limit)
    if request is not None and _parsed("requests", resource, request) != units:
        raise QuantityError(f"requests[{resource}] is {request!r}, expected {limit!r} as in limits")
    return units


def _parsed(field: str, resource: str, quantity: str | int) -> int:
    try:
        return parse_quantity(str(quantity))
    except QuantityError as error:
        raise QuantityError(f"{field}[{resource}]: {error}") from error
