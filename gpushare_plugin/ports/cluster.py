"""What is read from the API server, and what is told to it, as values.

Rule: no JSON, no HTTP and no foreign type is seen here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from gpushare_plugin.core.pods import Pod

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node object, as far as we ask."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Quantities as they are written: who needs one parses it, and tells if it does not parse."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    """Whether condition Ready is True; Unknown and none at all are not."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned(Generic[T]):
    """An object at one version."""

    uid: str
    version: str
    """The resourceVersion."""
    item: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """All objects of one list, and the version that a watch goes on from."""

    version: str
    """The list's own: its objects come in any order of versions."""
    objects: tuple[Versioned[T], ...]


@dataclass(frozen=True, slots=True)
class Present(Generic[T]):
    """A watch tells: the object is so now (added or modified)."""

    object: Versioned[T]


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """A watch tells: the object is gone, or is not selected any more; how it was at last."""

    object: Versioned[T]


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A watch tells: all changes up to this version have been told."""

    version: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A watch tells: the server has taken it on; no change yet."""


WatchEvent = Present[T] | Deleted[T] | Bookmark | Opened


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object came, or is another version now."""

    item: T


@dataclass(frozen=True, slots=True)
class Gone(Generic[T]):
    """An object is not there any more; how it was at last."""

    item: T


Change = Upserted[T] | Gone[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPatch:
    """What is to become of an object; None takes a key away, what is not named stays."""

    uid: str
    """The object that is meant, not another one of its name."""
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    status: Mapping[str, object] = field(default_factory=dict)
    """A merge patch of `status`, such as `{"capacity": {"aliyun.com/gpu-count": "2"}}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object that a Kubernetes event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    """Empty for a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Something that happened to an object, for who reads `kubectl describe`."""

    subject: Subject
    reason: str
    """One word in CamelCase."""
    message: str
    warning: bool = False


class ClusterWriter(Protocol):
    """Writes to the API server, status subresources alone. Each method raises ApiError."""

    async def patch_pod_status(self, namespace: str, name: str, patch: StatusPatch) -> Pod:
        """Change a pod, and return it as it is then; raises ApiConflict if its UID is another."""

    async def patch_node_status(self, name: str, patch: StatusPatch) -> Node:
        """Change a node, and return it as it is then; raises ApiConflict if its UID is another."""


class EventWriter(Protocol):
    """Writes Kubernetes events, counting up what happened before."""

    async def record(self, occurrence: Occurrence) -> None:
        """Write that something happened; raises ApiError."""
