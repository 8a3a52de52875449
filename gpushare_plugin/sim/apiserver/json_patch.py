"""JSON patch (RFC 6902): add, replace, remove and test.

Rule: all of the operations happen or none; the first that cannot is the error.
Pure: a new value comes out, nothing that went in is changed.
"""

import copy
from typing import Any

from gpushare_plugin.sim.apiserver.kinds import Json

_MISSING = object()


class PatchFailed(Exception):
    """An operation does not fit the object: 422, where one that makes no sense is a 400."""


def patched(value: Json, operations: Any) -> Json:
    """Apply operations in order; raises PatchFailed, or ValueError for a malformed patch."""
    if not isinstance(operations, list):
        raise ValueError("a JSON patch is a list of operations")  # noqa: TRY004 - from JSON
    root: Any = {"": copy.deepcopy(value)}
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            text = f"not an operation with a path: {operation}"
            raise ValueError(text)  # noqa: TRY004 - from JSON
        if operation.get("op") in {"add", "replace"} and "value" not in operation:
            raise ValueError(f"no value: {operation}")
        _apply(root, operation)
    result: Json = root[""]
    return result


def _apply(root: Json, operation: Json) -> None:
    steps = [_unescaped(step) for step in operation["path"].split("/")]
    parent: Any = root
    for step in steps[:-1]:
        parent = _at(parent, step)
    last = steps[-1]
    match operation.get("op"):
        case "add":
            _add(parent, last, operation["value"])
        case "replace":
            _at(parent, last)
            _set(parent, last, operation["value"])
        case "remove":
            _at(parent, last)
            del parent[int(last) if isinstance(parent, list) else last]
        case "test":
            if _at(parent, last, absent=None) != operation.get("value"):
                raise PatchFailed(f"testing value {operation['path']} failed: test failed")
        case other:
            raise ValueError(f"Unexpected kind: {other}")


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _at(parent: Any, step: str, *, absent: Any = _MISSING) -> Any:
    if isinstance(parent, dict) and step in parent:
        return parent[step]
    if isinstance(parent, list) and step.isdecimal() and int(step) < len(parent):
        return parent[int(step)]
    if absent is _MISSING:
        raise PatchFailed(f"missing path: {step}: missing value")
    return absent


def _add(parent: Any, step: str, value: Any) -> None:
    if isinstance(parent, dict):
        parent[step] = value
    elif isinstance(parent, list) and step == "-":
        parent.append(value)
    elif isinstance(parent, list) and step.isdecimal() and int(step) <= len(parent):
        parent.insert(int(step), value)
    else:
        raise PatchFailed(f"add operation does not apply: doc is missing path: {step}")


def _set(parent: Any, step: str, value: Any) -> None:
    parent[int(step) if isinstance(parent, list) else step] = value
