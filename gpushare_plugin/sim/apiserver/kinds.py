"""The kinds of objects that the server has, as one table.

Rule: what differs between kinds is a field here; no other module asks for a
kind by its name, except where one kind alone has a life of its own (pods).
"""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
"""One JSON object: an API object, or a part of one."""

ALL_VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})
_METADATA_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind, in one API version."""

    name: str
    """As in `kind`."""
    resource: str
    """As in the path."""
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    verbs: frozenset[str] = ALL_VERBS
    fields: tuple[str, ...] = _METADATA_FIELDS
    """What a field selector may name."""
    unconditional_update: bool = True
    """Whether an update may come without a resourceVersion."""
    status_on_create: bool = False
    renamed: dict[str, str] = field(default_factory=dict, hash=False)
    """Fields that have another name in the stored version: ours to theirs."""

    @property
    def api_version(self) -> str:
        """As in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The resource with its group, as messages name it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def has_status(self) -> bool:
        """Whether the status is written through a subresource of its own."""
        return "status" in self.subresources

    def from_stored(self, value: Json) -> Json:
        """Return a stored object in this API version."""
        back = {theirs: ours for ours, theirs in self.renamed.items()}
        return {back.get(key, key): item for key, item in value.items()} | self.head

    def to_stored(self, value: Json) -> Json:
        """Return an object of this API version as it is kept."""
        return {self.renamed.get(key, key): item for key, item in value.items()} | (
            stored_kind(self).head
        )

    @property
    def head(self) -> Json:
        """What an object of this kind begins with."""
        return {"kind": self.name, "apiVersion": self.api_version}


POD = Kind(
    name="Pod",
    resource="pods",
    subresources=frozenset({"status", "binding"}),
    fields=(
        *_METADATA_FIELDS,
        "spec.nodeName",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
)
NODE = Kind(
    name="Node",
    resource="nodes",
    namespaced=False,
    subresources=frozenset({"status"}),
    fields=("metadata.name", "spec.unschedulable"),
    status_on_create=True,
)
NAMESPACE = Kind(
    name="Namespace",
    resource="namespaces",
    namespaced=False,
    fields=("metadata.name", "status.phase"),
)
CONFIG_MAP = Kind(name="ConfigMap", resource="configmaps")
LEASE = Kind(
    name="Lease", resource="leases", group="coordination.k8s.io", unconditional_update=False
)
_EVENT_FIELDS = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
EVENT = Kind(
    name="Event",
    resource="events",
    fields=(
        *_METADATA_FIELDS,
        *(f"involvedObject.{name}" for name in _EVENT_FIELDS),
        "reason",
        "reportingComponent",
        "type",
    ),
)
NEW_EVENT = Kind(
    name="Event",
    resource="events",
    group="events.k8s.io",
    fields=(
        *_METADATA_FIELDS,
        *(f"regarding.{name}" for name in _EVENT_FIELDS),
        "reason",
        "reportingController",
        "type",
    ),
    renamed={
        "regarding": "involvedObject",
        "note": "message",
        "reportingController": "reportingComponent",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
    },
)
BINDING = Kind(name="Binding", resource="bindings", verbs=frozenset({"create"}))
ACCESS_REVIEW = Kind(
    name="SelfSubjectAccessReview",
    resource="selfsubjectaccessreviews",
    group="authorization.k8s.io",
    namespaced=False,
    verbs=frozenset({"create"}),
)

STORED = (POD, NODE, NAMESPACE, CONFIG_MAP, LEASE, EVENT)
"""The kinds that objects are kept as; driving the server, a resource's name stands for one."""
SERVED = (*STORED, NEW_EVENT, BINDING, ACCESS_REVIEW)


def stored_kind(kind: Kind) -> Kind:
    """Return the kind that objects of `kind` are kept as."""
    return EVENT if kind is NEW_EVENT else kind
