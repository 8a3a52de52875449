"""One object at one version, kept as the bytes that clients get.

Rule 1: nothing that was stored is ever changed, and every reader decodes a copy
of its own; so a snapshot is a tuple, and no answer is encoded twice.
Rule 2: `metadata.managedFields` belongs to the server: it is put into the bytes
and never comes out of `value`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from gpushare_plugin.sim.apiserver.kinds import Json, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object as it was between two writes."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: int
    """The resourceVersion."""
    body: bytes
    """The object as a list shows it: without kind and apiVersion."""
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """The values of the kind's selectable fields."""

    @classmethod
    def seal(cls, kind: Kind, value: Json, *, version: int, managed_fields: bytes) -> Self:
        """Return the object that `value` stands for, which has no managed fields of its own."""
        metadata = value["metadata"] | {"resourceVersion": str(version)}
        rest = {key: item for key, item in value.items() if key not in _HEAD}
        head = b'{"metadata":' + encoded(metadata)
        if managed_fields:
            head = head[:-1] + b',"managedFields":' + managed_fields + b"}"
        return cls(
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            version=version,
            body=head + (b"," + encoded(rest)[1:] if rest else b"}"),
            labels=metadata.get("labels", {}),
            fields={path: _text(dig(value, path.split("."))) for path in kind.fields},
        )

    @property
    def key(self) -> tuple[str, str]:
        """What lists are sorted by."""
        return (self.namespace, self.name)

    @property
    def path(self) -> str:
        """The namespace and name in one."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def value(self) -> Json:
        """Return the whole object, for the caller to keep."""
        value: Json = self.kind.head | json.loads(self.body)
        value["metadata"].pop("managedFields", None)
        return value

    def document(self, kind: Kind) -> bytes:
        """Return the object as an answer of its own shows it, in that API version."""
        head = f'{{"kind":"{kind.name}","apiVersion":"{kind.api_version}",'
        return head.encode() + self.item(kind)[1:]

    def item(self, kind: Kind) -> bytes:
        """Return the object as a list shows it, in that API version."""
        if not kind.renamed:
            return self.body
        item = kind.from_stored(json.loads(self.body))
        return encoded({key: part for key, part in item.items() if key not in kind.head})


_HEAD = ("kind", "apiVersion", "metadata")


def encoded(value: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def dig(value: Any, path: Iterable[str]) -> Any:
    """Return what lies at a path, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def managed_fields(size_bytes: int) -> bytes:
    """Return about so many bytes of what a real server writes about who owns which field."""
    if size_bytes <= 0:
        return b""
    entry: Json = {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {}},
        "subresource": "status",
    }
    fields = entry["fieldsV1"]["f:status"]
    room = size_bytes - len(encoded([entry]))
    for number in range(max(0, room) // len('"f:condition-0000":{},')):
        fields[f"f:condition-{number:04d}"] = {}
    return encoded([entry])
