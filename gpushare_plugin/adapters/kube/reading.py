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

_NOTHING: Mapping[str, str] = {}
"""Shared: of thousands of objects, most say nothing of what is asked for."""
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
    """Reads the objects of one kind, and says which of them are kept."""

    def __init__(
        self,
        read: Callable[[wire.Json], Versioned[T]],
        *,
        keeps: Callable[[T], bool] | None = None,
    ) -> None:
        """`read` makes a value of one object's JSON; it raises wire.Garbled."""
        self.read = read
        self._keeps = keeps

    def keeps(self, found: Versioned[T]) -> bool:
        """Say whether the object is one of those that are asked for; lists leave others out."""
        return self._keeps is None or self._keeps(found.item)

    def event(self, line: bytes) -> WatchEvent[T] | Answer:
        """Read one line of a watch; an Answer is the server's refusal to go on.

        Raises:
            wire.Garbled: it is no line of a watch.
        """
        envelope = _envelope(line)
        match envelope.type:
            case "ADDED" | "MODIFIED":
                found = self.read(envelope.object)
                return Present(found) if self.keeps(found) else Deleted(found)
            case "DELETED":
                return Deleted(self.read(envelope.object))
            case "BOOKMARK":
                return Bookmark(_any_object(envelope.object).metadata.resource_version)
            case "ERROR":
                return wire.refusal(0, envelope.object)
            case other:
                raise wire.Garbled(f"event {other!r}, expected one of the five of a watch")


def versioned(meta: wire.Metadata | wire.Identity, item: T) -> Versioned[T]:
    """Return the item at its version; raises wire.Garbled where it does not say who it is."""
    if not (meta.uid and meta.name and meta.resource_version):
        raise wire.Garbled("no metadata.uid, name or resourceVersion, expected those of an object")
    return Versioned(uid=meta.uid, version=meta.resource_version, item=item)


def node_reader(
    resources: Iterable[str] | None = None,
    *,
    annotation_prefixes: tuple[str, ...] = ("",),
    labels: bool = True,
) -> Reader[Node]:
    """Return the reader of nodes: only these resources (None for all), annotations, labels."""
    wanted = None if resources is None else frozenset(resources)
    return Reader(_Nodes(wanted, annotation_prefixes, labels=labels).read)


class _Nodes:
    def __init__(
        self,
        resources: frozenset[str] | None,
        annotation_prefixes: tuple[str, ...],
        *,
        labels: bool,
    ) -> None:
        self._resources = resources
        self._prefixes = annotation_prefixes
        self._labels = labels

    def read(self, body: wire.Json) -> Versioned[Node]:
        found = _node(body)
        meta, status = found.metadata, found.status
        node = Node(
            name=meta.name,
            uid=meta.uid,
            labels=meta.labels if self._labels else _NOTHING,
            annotations=_beginning(meta.annotations, self._prefixes),
            capacity=self._quantities(status.capacity),
            allocatable=self._quantities(status.allocatable),
            ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions),
        )
        return versioned(meta, node)

    def _quantities(self, found: Mapping[str, str]) -> Mapping[str, str]:
        if self._resources is None:
            return found
        return {name: found[name] for name in self._resources & found.keys()} or _NOTHING


def pod_reader(
    resources: Iterable[str],
    *,
    annotation_prefixes: tuple[str, ...] = ("",),
    asking_only: bool = False,
) -> Reader[Pod]:
    """Return the reader of pods: only these resources, only annotations that begin so.

    `asking_only` keeps those that ask for one of the resources, or may: a spec that does
    not parse.
    """
    read = _Pods(frozenset(resources), annotation_prefixes).read
    return Reader(read, keeps=_asks if asking_only else None)


def _asks(pod: Pod) -> bool:
    return bool(pod.fault) or any(container.requests for container in pod.containers)


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
            annotations=_beginning(meta.annotations, self._prefixes),
            priority=found.spec.priority,
            scheduler_name=found.spec.scheduler_name,
            fault=f"pod {meta.namespace}/{meta.name}: {'; '.join(faults)}" if faults else "",
        )
        return versioned(meta, pod)

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


def _beginning(found: Mapping[str, str], prefixes: tuple[str, ...]) -> Mapping[str, str]:
    if prefixes == ("",):
        return found
    return {key: text for key, text in found.items() if key.startswith(prefixes)} or _NOTHING


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
