"""Pods and nodes, as far as a scheduler looks at them.

Rule 1: `value` is the object as an extender is sent it: what Go writes of one from an
informer, so without kind, apiVersion and managedFields.
Rule 2: amounts are thousandths, so that a CPU of 500m is a whole number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpushare_plugin.sim.scheduler.quantities import thousandths

Json = dict[str, Any]
"""One JSON object: an API object, or a part of one."""

Amounts = Mapping[str, int]
"""Thousandths by resource."""

PODS_RESOURCE = "pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    """One pod."""

    value: Json = field(repr=False)
    namespace: str
    name: str
    uid: str
    version: str
    """Its resourceVersion."""
    node_name: str
    nominated_node: str
    priority: int
    started: str
    """When it started; until then, when it was made."""
    terminating: bool
    scheduler_name: str
    requests: Amounts

    @property
    def key(self) -> str:
        """Its namespace and name, as the logs of the real one name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def spec(self) -> Json:
        """The spec."""
        found: Json = self.value.get("spec") or {}
        return found

    @property
    def status(self) -> Json:
        """The status."""
        found: Json = self.value.get("status") or {}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One node."""

    value: Json = field(repr=False)
    name: str
    allocatable: Amounts
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Json, ...]
    unschedulable: bool
    conditions: Mapping[str, str]
    """The status of each, by type."""


def pod_info(value: Json) -> PodInfo:
    """Read a pod; raises ValueError for a request that is no quantity."""
    value = _as_go_sends(value)
    metadata, spec, status = (value.get(part) or {} for part in ("metadata", "spec", "status"))
    return PodInfo(
        value=value,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        version=metadata.get("resourceVersion", ""),
        node_name=spec.get("nodeName", ""),
        nominated_node=status.get("nominatedNodeName", ""),
        priority=spec.get("priority") or 0,
        started=status.get("startTime") or metadata.get("creationTimestamp", ""),
        terminating="deletionTimestamp" in metadata,
        scheduler_name=spec.get("schedulerName", "default-scheduler"),
        requests=effective_requests(spec),
    )


def node_info(value: Json) -> NodeInfo:
    """Read a node; allocatable is the capacity where it is missing, as the API server sets it."""
    value = _as_go_sends(value)
    metadata, spec, status = (value.get(part) or {} for part in ("metadata", "spec", "status"))
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    return NodeInfo(
        value=value,
        name=metadata["name"],
        allocatable={name: thousandths(amount) for name, amount in allocatable.items()},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        conditions={each["type"]: each["status"] for each in status.get("conditions") or ()},
    )


def effective_requests(spec: Json) -> Amounts:
    """Return the most that a pod asks for at one time (KEP-753), its overhead included."""
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            most = _max(most, sidecars)
        else:
            most = _max(most, _sum((sidecars, asked)))
    main = _sum([sidecars, *(_requests(each) for each in spec.get("containers") or ())])
    overhead = {name: thousandths(each) for name, each in (spec.get("overhead") or {}).items()}
    return _sum((_max(most, main), overhead))


def _requests(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    asked = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return {name: thousandths(amount) for name, amount in asked.items()}


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _as_go_sends(value: Json) -> Json:
    metadata = {name: item for name, item in value["metadata"].items() if name != "managedFields"}
    rest = {name: item for name, item in value.items() if name not in {"kind", "apiVersion"}}
    return rest | {"metadata": metadata}
