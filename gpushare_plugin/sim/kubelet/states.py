"""What a simulated kubelet shows of itself: values for tests, the demo and benchmarks.

Rule: everything here can travel as JSON, so nothing but dataclasses, strings,
numbers, tuples and mappings by string.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.kubelet.pods import PodStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationRecord:
    """One call of Register."""

    endpoint: str
    resource: str
    version: str
    pre_start_required: bool
    get_preferred_allocation_available: bool
    unix_seconds: float
    error: str = ""
    """Empty where the registration was accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """One ListAndWatch stream, open or ended."""

    resource: str
    endpoint: str
    open: bool = True
    messages: int = 0
    last_bytes: int = 0
    error: str = ""
    """Why it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcRecord:
    """One finished call, in either direction; streams are not among them."""

    method: str
    """The last part of the method's path, such as Allocate."""
    resource: str
    """Empty for PodResources."""
    request_bytes: int
    response_bytes: int
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """One resource as the node reports it, and the devices behind it."""

    capacity: int
    allocatable: int
    health: Mapping[str, str]
    """Healthy or Unhealthy, by device ID."""
    allocated: tuple[str, ...]
    """Sorted IDs that are not free, leaked ones among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletState:
    """All of it, at one moment."""

    version: int
    """Grows with every change."""
    running: bool
    registrations: tuple[RegistrationRecord, ...]
    """The accepted ones."""
    rejections: tuple[RegistrationRecord, ...]
    resources: Mapping[str, ResourceState]
    """While the kubelet is stopped: as the node last reported them."""
    streams: tuple[StreamState, ...]
    rpcs: tuple[RpcRecord, ...]
    pods: tuple[PodStatus, ...]

    def pod(self, uid: str) -> PodStatus:
        """Return the pod of that UID; KeyError if there is none."""
        for pod in self.pods:
            if pod.uid == uid:
                return pod
        raise KeyError(uid)

    def open_streams(self, resource: str) -> tuple[StreamState, ...]:
        """Return the resource's streams that have not ended."""
        return tuple(s for s in self.streams if s.open and s.resource == resource)
