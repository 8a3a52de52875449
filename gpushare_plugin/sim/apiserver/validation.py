"""What no object may be, whoever writes it: the real server's checks that our clients can meet.

Rule: raises ApiRefusal with the field and the cause; says nothing of who may write.
"""

import re
from collections.abc import Mapping
from typing import Any

from gpushare_plugin.sim.apiserver.kinds import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    NEW_EVENT,
    NODE,
    POD,
    Json,
    Kind,
)
from gpushare_plugin.sim.apiserver.refusals import bad_request, invalid
from gpushare_plugin.sim.apiserver.stored import dig

ANNOTATIONS_LIMIT_BYTES = 256 * 1024
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_QUANTITY = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?",
)
_WHOLE = re.compile(r"\+?\d+(\.0*)?([KMGTPE]i|[kMGTPE]|[eE]\+?\d+)?")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
"""Exactly six digits behind the point: the server takes no fewer and no more."""
_LEASE_NUMBERS = (
    ("leaseDurationSeconds", 1, "greater than 0"),
    ("leaseTransitions", 0, "greater than or equal to 0"),
)
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_NEW_EVENT_NEEDS = ("eventTime", "reportingController", "reportingInstance", "action", "reason")


def checked(kind: Kind, value: Json) -> Json:
    """Return the value as it is kept; raises ApiRefusal if it is not a good object."""
    name = dig(value, ("metadata", "name"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        cause = f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of '
        raise invalid(kind, str(name), "metadata.name", cause + "lower case characters, '-' or '.'")
    _check_labels(kind, name, _words(kind, value, "labels"))
    _check_annotations(kind, name, _words(kind, value, "annotations"))
    if kind is CONFIG_MAP:
        _words(kind, value, "data", inside="")
    if kind in {EVENT, NEW_EVENT}:
        _check_event(kind, name, value)
    if kind is LEASE:
        _check_lease(name, dig(value, ("spec",)) or {})
    return _with_quantities(name, value) if kind is NODE else value


def check_pod_update(before: Json, after: Json) -> None:
    """Refuse a change of a pod's spec other than of the few fields that may change."""
    if _fixed(before.get("spec", {})) != _fixed(after.get("spec", {})):
        cause = (
            "Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds`"
        )
        raise invalid(POD, after["metadata"]["name"], "spec", cause)


def _fixed(spec: Json) -> Json:
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}
    fixed = {key: item for key, item in spec.items() if key not in free}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [item | {"image": ""} for item in fixed[key]]
    return fixed


def _words(kind: Kind, value: Json, part: str, *, inside: str = "metadata") -> Mapping[str, str]:
    found = dig(value, (inside, part) if inside else (part,)) or {}
    if not isinstance(found, dict) or not all(isinstance(item, str) for item in found.values()):
        where = f"ObjectMeta.metadata.{part}" if inside else f"{kind.name}.{part}"
        raise bad_request(
            f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: json: '
            f"cannot unmarshal {_wrong(found)} into Go struct field {where} of type string"
        )
    return found


def _wrong(found: Any) -> str:
    values = found.values() if isinstance(found, dict) else [found]
    wrong = next(value for value in values if not isinstance(value, str) or value is found)
    names = {bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
    return names.get(type(wrong), "string")


def _check_labels(kind: Kind, name: str, labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if not _is_key(key):
            raise invalid(kind, name, "metadata.labels", f'Invalid value: "{key}": {_LABEL_RULE}')
        if value and not _WORD.fullmatch(value):
            raise invalid(kind, name, "metadata.labels", f'Invalid value: "{value}": {_LABEL_RULE}')


def _check_annotations(kind: Kind, name: str, annotations: Mapping[str, str]) -> None:
    where = "metadata.annotations"
    for key in annotations:
        if not _is_key(key):
            raise invalid(
                kind,
                name,
                where,
                f'Invalid value: "{key}": name part must consist of '
                "alphanumeric characters, '-', '_' or '.'",
            )
    size_bytes = sum(len(key.encode()) + len(item.encode()) for key, item in annotations.items())
    if size_bytes > ANNOTATIONS_LIMIT_BYTES:
        cause = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        raise invalid(kind, name, where, cause)


def _is_key(key: str) -> bool:
    prefix, slash, word = key.rpartition("/")
    return bool(_WORD.fullmatch(word)) and (not slash or bool(_NAME.fullmatch(prefix)))


def _check_event(kind: Kind, name: str, event: Json) -> None:
    about = "regarding" if kind is NEW_EVENT else "involvedObject"
    # Events of objects without a namespace, such as nodes, live in "default".
    named = dig(event, (about, "namespace")) or ""
    if event["metadata"].get("namespace") != (named or "default"):
        cause = f'Invalid value: "{named}": does not match event.namespace'
        raise invalid(kind, name, f"{about}.namespace", cause)
    if kind is NEW_EVENT:
        for field in _NEW_EVENT_NEEDS:
            if not event.get(field):
                raise invalid(kind, name, field, "Required value")


def _check_lease(name: str, spec: Json) -> None:
    for field in ("acquireTime", "renewTime"):
        text = spec.get(field)
        if text is not None and not _MICRO_TIME.fullmatch(str(text)):
            raise bad_request(
                'Lease in version "v1" cannot be handled as a Lease: parsing time "\\"'
                f'{text}\\"" as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
            )
    for field, least, rule in _LEASE_NUMBERS:
        number = spec.get(field)
        if number is not None and number < least:
            raise invalid(LEASE, name, f"spec.{field}", f"Invalid value: {number}: must be {rule}")


def _with_quantities(name: str, node: Json) -> Json:
    status = dict(node.get("status") or {})
    for part in ("capacity", "allocatable"):
        if part in status:
            found = status[part] or {}
            status[part] = {key: _quantity(name, part, key, item) for key, item in found.items()}
    return node | {"status": status} if "status" in node else node


def _quantity(name: str, part: str, resource: str, value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    where = f"status.{part}.{resource}"
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        cause = "quantities must match the regular expression "
        cause += "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        raise bad_request(f'Node in version "v1" cannot be handled as a Node: {where}: {cause}')
    if "/" in resource and not _WHOLE.fullmatch(text):
        raise invalid(NODE, name, where, f'Invalid value: "{text}": must be an integer')
    return text
