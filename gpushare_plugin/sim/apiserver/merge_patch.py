"""JSON merge patch, and the strategic merge patch that Kubernetes made of it.

Rule: which lists merge, and by which key, is the table below; any other list is
replaced. Pure: a new value comes out, nothing that went in is changed.
"""

from collections.abc import Mapping
from typing import Any

from gpushare_plugin.sim.apiserver.kinds import Json

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "addresses": "type",
    "podIPs": "ip",
    "ownerReferences": "uid",
}
"""As the real types are marked; tolerations and taints are not, and are replaced whole."""
_MERGED_WORDS = frozenset({"finalizers"})
_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_REMOVE_WORDS = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def merged(value: Any, patch: Any) -> Any:
    """Apply a merge patch: maps merge, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


def strategically_merged(value: Json, patch: Json) -> Json:
    """Apply a strategic merge patch; raises ValueError for one that makes no sense."""
    patch = dict(patch)
    match patch.pop(_DIRECTIVE, "merge"):
        case "replace":
            return patch
        case "delete":
            return {}
        case "merge":
            pass
        case other:
            raise ValueError(f"Unknown patch type found: {other}")
    result = dict(value)
    if _RETAIN in patch:
        kept = patch.pop(_RETAIN)
        result = {key: item for key, item in result.items() if key in kept}
    for key, change in patch.items():
        _apply(result, key, change)
    return result


def _apply(result: Json, key: str, change: Any) -> None:
    if key.startswith(_ORDER):
        return
    if key.startswith(_REMOVE_WORDS):
        name = key.removeprefix(_REMOVE_WORDS)
        result[name] = [word for word in result.get(name) or () if word not in change]
    elif change is None:
        result.pop(key, None)
    elif isinstance(change, dict):
        found = result.get(key)
        result[key] = strategically_merged(found if isinstance(found, dict) else {}, change)
    elif isinstance(change, list) and key in MERGE_KEYS:
        result[key] = _merged_list(result.get(key) or [], change, MERGE_KEYS[key])
    elif isinstance(change, list) and key in _MERGED_WORDS:
        found = result.get(key) or []
        result[key] = [*found, *(word for word in change if word not in found)]
    else:
        result[key] = change


def _merged_list(found: list[Json], changes: list[Json], merge_key: str) -> list[Json]:
    result = {item.get(merge_key): item for item in found}
    if any(change == {_DIRECTIVE: "replace"} for change in changes):
        result = {}
        changes = [change for change in changes if change != {_DIRECTIVE: "replace"}]
    for change in changes:
        if merge_key not in change:
            raise ValueError(f"map: {change} does not contain declared merge key: {merge_key}")
        key = change[merge_key]
        if change.get(_DIRECTIVE) == "delete":
            result.pop(key, None)
        else:
            result[key] = strategically_merged(result.get(key, {}), change)
    return list(result.values())
