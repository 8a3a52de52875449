"""What the extender asks of the API server, and the values that come and go.

Rule 1: no JSON, no HTTP and no foreign type is seen here.
Rule 2: every method is one try and has a time-out; what to do after a failure is the
caller's to know. Each raises ApiError: of its kinds, ApiUnavailable alone (ApiThrottled
with it, where it has `begun`) leaves open whether a write was carried out; every other one
says that it was not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.ports.cluster import StatusPatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A pod to be put on a node, and what it is annotated with in the same step."""

    namespace: str
    name: str
    uid: str
    """The pod that is meant: another one of this name is not bound."""
    node_name: str
    annotations: Mapping[str, str] = field(default_factory=dict)


class Binder(Protocol):
    """Binds pods, and looks at one to learn what became of it."""

    async def bind(self, binding: Binding, *, timeout_seconds: float) -> None:
        """Put a pod on a node, with its annotations, by one request.

        Raises:
            ApiConflict: 409 or 422: it is bound already, on its way out, gated, of another
                UID, or a policy does not let it; nothing was done.
            ApiNotFound: there is no such pod; nothing was done.
            ApiRefused: 401 or 403; nothing was done.
            ApiUnavailable: the outcome is unknown: time-out, broken connection, 5xx, 429. It
                may be carried out later still: the API server works on after a client left,
                up to its `--request-timeout` (60 s by default).
            ApiError: any other refusal, such as 400; nothing was done.
        """

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        """Return a pod as it is in etcd now (a quorum read); raises ApiError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease of coordination.k8s.io/v1: who leads, and since when.

    Times are texts, RFC 3339 in UTC with microseconds (`2026-01-31T08:00:00.000000Z`), as
    the holder's clock had them: compare them for change alone, never with our clock.
    """

    namespace: str
    name: str
    holder: str
    """`holderIdentity`; empty for one that was given up."""
    duration_seconds: int
    acquire_time: str
    renew_time: str
    transitions: int = 0
    """How often the holder changed."""
    version: str = ""
    """The resourceVersion of what was read; empty for one that is not there yet."""
    document: bytes = field(default=b"", repr=False, compare=False)
    """All of what was read, for the store alone: what we do not know of it stays, if a change
    is made of the Lease by `replace`."""


class LeaseStore(Protocol):
    """The Leases of the cluster. Each method raises ApiError."""

    async def get_lease(self, namespace: str, name: str, *, timeout_seconds: float) -> Lease:
        """Return a Lease as it is now (a quorum read); raises ApiNotFound if there is none."""

    async def create_lease(self, lease: Lease, *, timeout_seconds: float) -> Lease:
        """Create a Lease, return it with its version; raises ApiConflict if there is one."""

    async def update_lease(self, lease: Lease, *, timeout_seconds: float) -> Lease:
        """Change a Lease that was read, by `replace` of what it says; return it as it is then.

        Raises:
            ApiConflict: it is of another version by now: read it again.
            ApiNotFound: it was deleted.
        """


class PodToucher(Protocol):
    """Finds pods by their labels, and changes labels and annotations through `pods/status`."""

    async def list_namespace_pods(
        self, namespace: str, *, label_selector: str, timeout_seconds: float
    ) -> tuple[Pod, ...]:
        """Return a namespace's pods of these labels, whatever they ask for; raises ApiError."""

    async def touch_pod(
        self, namespace: str, name: str, patch: StatusPatch, *, timeout_seconds: float
    ) -> Pod:
        """Change a pod, return it as it is then; raises ApiConflict if its UID is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyList:
    """What the ConfigMap `unhealthy-gpu-<node>` says of a node's cards."""

    node_name: str
    text: str
    """As it stands under the key `gpus`, such as "0,2"; empty where the key is missing."""


class Picture(Protocol):
    """What is held of the cluster's objects of one kind, kept true by watching."""

    @property
    def stale_seconds(self) -> float:
        """How long ago the server last gave a sign of life; up to 75 s is usual."""

    async def relist(self, *, timeout_seconds: float) -> None:
        """Read all objects from etcd now; return once what is held is as they were then.

        Raises:
            ApiError: it could not be had, or not within the time; what was held is held on.
        """
