"""What an object becomes when a client writes it: which parts it may change.

Rule 1: the status belongs to the status subresource and the rest to the main
resource; both carry labels and annotations.
Rule 2: what the server gave an object (UID, times, generation) no client takes.
Pure: times and UIDs come from the caller.
"""

from collections.abc import Iterable

from gpushare_plugin.sim.apiserver.kinds import POD, Json, Kind

_NAMES = ("name", "namespace", "generateName")
_SERVERS_OWN = (
    *_NAMES,
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
)
_LEFT_OUT_WHERE_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
_POD_SPEC_DEFAULTS = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}


def created(kind: Kind, value: Json, *, uid: str, now: str, trusted: bool = False) -> Json:
    """Return a new object; what a client may not give, a status too, counts only if trusted."""
    given = _cleaned(value["metadata"])
    if not trusted:
        given = {
            key: item for key, item in given.items() if key in _NAMES or key not in _SERVERS_OWN
        }
    metadata: Json = {"uid": uid, "creationTimestamp": now} | given
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if "spec" in value:
        metadata.setdefault("generation", 1)
    result = value | kind.head | {"metadata": metadata}
    if kind.has_status and not (trusted or kind.status_on_create):
        result.pop("status", None)
    if kind is POD:
        result["spec"] = _POD_SPEC_DEFAULTS | result.get("spec", {})
        result["status"] = {"phase": "Pending"} | result.get("status", {})
    return result


def updated(kind: Kind, before: Json, wanted: Json, *, subresource: str) -> Json:
    """Return `before` with those parts of `wanted` that this path writes."""
    if subresource == "status":
        result = _with(before, wanted, ("status",))
    else:
        parts = (before.keys() | wanted.keys()) - {"kind", "apiVersion", "metadata"}
        result = _with(before, wanted, parts - {"status"} if kind.has_status else parts)
    result["metadata"] = _metadata(before["metadata"], wanted.get("metadata") or {})
    return _with_generation(before, result)


def _with_generation(before: Json, after: Json) -> Json:
    """Return the object with its generation one higher if the spec differs."""
    if after.get("spec") == before.get("spec"):
        return after
    generation = before["metadata"].get("generation", 0) + 1
    return after | {"metadata": after["metadata"] | {"generation": generation}}


def _with(before: Json, wanted: Json, parts: Iterable[str]) -> Json:
    result = dict(before)
    for part in parts:
        if part in wanted:
            result[part] = wanted[part]
        else:
            result.pop(part, None)
    return result


def _metadata(before: Json, wanted: Json) -> Json:
    own = {key: before[key] for key in _SERVERS_OWN if key in before}
    theirs = {key: item for key, item in wanted.items() if key not in _SERVERS_OWN}
    return own | _cleaned(theirs)


def _cleaned(metadata: Json) -> Json:
    return {
        key: item
        for key, item in metadata.items()
        if key != "managedFields" and (item or key not in _LEFT_OUT_WHERE_EMPTY)
    }
