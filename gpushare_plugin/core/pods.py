"""The few facts of a pod that sharing asks for: whether it counts, and how much it asks.

Rule 1: there is one function that says whether a pod counts, and one that says how
much it asks for; node, extender and inspect use the same two.
Rule 2: amounts come from the spec, never from an annotation.
Rule 3: a terminating pod holds its memory until it is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class ContainerKind(Enum):
    """When a container runs."""

    INIT = "init"
    """Runs to its end before the next one starts."""
    SIDECAR = "sidecar"
    """An init container with restartPolicy Always: started in its turn, and stays."""
    MAIN = "main"


class Phase(Enum):
    """The phase of a pod, by Kubernetes's own words."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod's spec."""

    name: str
    kind: ContainerKind
    requests: Mapping[str, int]
    """Whole units of the resources that were asked after; others are not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod, as far as sharing asks."""

    namespace: str
    name: str
    uid: str
    containers: tuple[Container, ...]
    """Init containers and sidecars first, each group in the spec's order."""
    node_name: str = ""
    phase: Phase = Phase.PENDING
    terminating: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    """`spec.priority`: who may be evicted for whom."""
    scheduler_name: str = ""
    """`spec.schedulerName`; empty where it was not read."""
    fault: str = ""
    """What in the spec does not parse, named with its field; empty where all does."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def counts(pod: Pod) -> bool:
    """Say whether the pod holds what it asks for on its node: bound, and not ended."""
    return bool(pod.node_name) and pod.phase not in ENDED


def requested_units(pod: Pod, resource: str) -> int:
    """Return what the pod asks for in effect, by Kubernetes's rule.

    The most that runs at one time: each init container beside the sidecars started
    before it, or all main containers beside all sidecars (KEP-753).
    """
    most = sidecars = main = 0
    for container in pod.containers:
        units = container.requests.get(resource, 0)
        match container.kind:
            case ContainerKind.INIT:
                most = max(most, sidecars + units)
            case ContainerKind.SIDECAR:
                sidecars += units
                most = max(most, sidecars)
            case ContainerKind.MAIN:
                main += units
    return max(most, sidecars + main)
