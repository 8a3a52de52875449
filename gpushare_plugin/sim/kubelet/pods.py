"""Pods as the simulated kubelet is given them, and as it reports on them.

Values only: a `PodSpec` is what the API server would send, a `PodStatus` is
what the kubelet would write back. Nothing here knows devices or sockets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """The phase of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def ended(self) -> bool:
        """Whether a pod in this phase has given its devices back."""
        return self in {Phase.SUCCEEDED, Phase.FAILED}


class ContainerState(StrEnum):
    """What one container is doing."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container of a pod."""

    name: str
    requests: Mapping[str, int] = field(default_factory=dict)
    """Units by resource; resources that no plugin ever registered are passed over."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The pod's own environment, which wins over the plugin's."""
    mount_paths: tuple[str, ...] = ()
    """Container paths of the pod's own volume mounts, which hide the plugin's."""
    restartable: bool = False
    """For init containers: a sidecar, which keeps running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """One pod, bound to this node."""

    name: str
    uid: str
    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...] = ()
    namespace: str = "default"

    def in_start_order(self) -> Iterator[tuple[ContainerSpec, bool]]:
        """Yield each container, init ones first, and whether it is an init container."""
        yield from ((container, True) for container in self.init_containers)
        yield from ((container, False) for container in self.containers)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindMount:
    """A host path inside a container."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device file inside a container."""

    container_path: str
    host_path: str
    permissions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """One container as the runtime was told to make it."""

    name: str
    init: bool
    state: ContainerState = ContainerState.WAITING
    reason: str = ""
    message: str = ""
    restarts: int = 0
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Sorted device IDs by resource."""
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One pod as the kubelet reports it."""

    namespace: str
    name: str
    uid: str
    phase: Phase
    reason: str = ""
    message: str = ""
    containers: tuple[ContainerStatus, ...] = ()
    """Init containers first."""

    def container(self, name: str) -> ContainerStatus:
        """Return the container of that name; KeyError if there is none."""
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(name)
