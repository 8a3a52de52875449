"""The API server's JSON, of it only the fields that we read; and our own JSON.

Rule 1: the only module that imports msgspec; its errors leave as `Garbled`.
Rule 2: a decoding call holds the GIL, so a list's objects are left raw: who decodes
them lets others run in between.
Knows no value of ours and no HTTP.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from gpushare_plugin.adapters.kube.failures import Answer

Json = bytes | Raw
"""JSON text: a body, or a part of one that is not decoded yet."""


class Garbled(Exception):
    """Bytes that are not what was asked for; the text says where."""


class Metadata(Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of an object or of a list."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    continue_: str = msgspec.field(name="continue", default="")


class Resources(Struct, frozen=True, gc=False):
    """What a container asks for; quantities as they are written."""

    limits: dict[str, str | int] = {}
    requests: dict[str, str | int] = {}


class ContainerSpec(Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    containers: list[ContainerSpec] = []
    init_containers: list[ContainerSpec] = []
    priority: int = 0
    scheduler_name: str = ""


class PodStatus(Struct, frozen=True, gc=False):
    """The status of a pod."""

    phase: str = ""


class PodObject(Struct, frozen=True, gc=False):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Condition(Struct, frozen=True, gc=False):
    """A condition of a node."""

    type: str = ""
    status: str = ""


class NodeStatus(Struct, frozen=True, gc=False):
    """The status of a node."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class NodeObject(Struct, frozen=True, gc=False):
    """A node."""

    metadata: Metadata = Metadata()
    status: NodeStatus = NodeStatus()


class BoundTo(Struct, frozen=True, gc=False, rename="camel"):
    """Of a pod's spec, its node alone."""

    node_name: str = ""


class PodOutline(Struct, frozen=True, gc=False):
    """What can be told of a pod whose containers cannot be read."""

    metadata: Metadata = Metadata()
    spec: BoundTo = BoundTo()
    status: PodStatus = PodStatus()


class Identity(Struct, frozen=True, gc=False, rename="camel"):
    """Which object it is, at which version; annotations and the rest are passed over."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class UnhealthyData(Struct, frozen=True, gc=False):
    """Of a ConfigMap's data, the list of unhealthy cards alone."""

    gpus: str = ""


class ConfigMapObject(Struct, frozen=True, gc=False):
    """A ConfigMap."""

    metadata: Identity = Identity()
    data: UnhealthyData | None = None


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Lease; each field may be missing."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(Struct, frozen=True, gc=False):
    """A Lease."""

    metadata: Identity = Identity()
    spec: LeaseSpec = LeaseSpec()


class LeaseDocument(Struct, frozen=True, gc=False):
    """A Lease whose parts are left as they were written, to be sent back."""

    metadata: Raw
    spec: dict[str, Raw] = {}


class AnyObject(Struct, frozen=True, gc=False):
    """What every object has."""

    metadata: Metadata = Metadata()


class Page(Struct, frozen=True, gc=False):
    """One page of a list, its objects still raw."""

    metadata: Metadata = Metadata()
    items: list[Raw] | None = None


class Envelope(Struct, frozen=True, gc=False):
    """A line of a watch, its object still raw."""

    type: str
    object: Raw


class Details(Struct, frozen=True, gc=False, rename="camel"):
    """What a refusal says beside its message."""

    retry_after_seconds: float | None = None


class Status(Struct, frozen=True, gc=False):
    """A refusal's body, or the object of a watch's ERROR."""

    code: int = 0
    message: str = ""
    reason: str = ""
    details: Details = Details()


Shape = TypeVar("Shape", bound=Struct)


def decoding(shape: type[Shape]) -> Callable[[Json], Shape]:
    """Return the function that decodes JSON of this shape; it raises Garbled."""
    decode = msgspec.json.Decoder(shape).decode

    def decoded(body: Json) -> Shape:
        try:
            return decode(body)
        # Invalid UTF-8 is told by Python's own error.
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Garbled(str(error)) from error

    return decoded


_status_of = decoding(Status)
_LONGEST_TEXT_BYTES = 200


def refusal(code: int, body: Json, *, retry_after: str = "") -> Answer:
    """Return what a refusal says; a body that is no Status (a proxy's page) is told as text.

    `code` is 0 where the body alone tells; `retry_after` is the header.
    """
    seconds = float(retry_after) if retry_after.isdecimal() else None
    try:
        status = _status_of(body)
    except Garbled:
        text = bytes(body)[:_LONGEST_TEXT_BYTES].decode("utf-8", errors="replace")
        return Answer(code=code, detail=" ".join(text.split()), retry_after_seconds=seconds)
    return Answer(
        code=code or status.code,
        detail=status.message or status.reason,
        retry_after_seconds=seconds if seconds is not None else status.details.retry_after_seconds,
    )


def size_bytes(body: Json) -> int:
    """Return how long a text is, without decoding or copying it."""
    return memoryview(body).nbytes


def encoded(value: object) -> bytes:
    """Return the JSON of a value made of maps, sequences, texts and numbers."""
    return msgspec.json.encode(value)
