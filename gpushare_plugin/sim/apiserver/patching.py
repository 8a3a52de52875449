"""A patch as it comes over the wire: its content type, its text, and what it does.

Rule: a patch that nobody can read is refused before the object is looked up.
"""

import json
from collections.abc import Callable
from typing import Any

from gpushare_plugin.sim.apiserver.json_patch import PatchFailed, patched
from gpushare_plugin.sim.apiserver.kinds import Json
from gpushare_plugin.sim.apiserver.merge_patch import merged, strategically_merged
from gpushare_plugin.sim.apiserver.refusals import (
    ApiRefusal,
    bad_request,
    unsupported_media_type,
)

Change = Callable[[Json], Json]


def _strategic(value: Json, patch: Any) -> Json:
    try:
        return strategically_merged(value, patch)
    except (ValueError, TypeError, AttributeError) as failure:
        raise bad_request(str(failure)) from failure


def _operations(value: Json, patch: Any) -> Json:
    try:
        return patched(value, patch)
    except PatchFailed as failure:
        text = "the server rejected our request due to an error in our request"
        causes = [{"reason": "UnexpectedServerResponse", "message": str(failure)}]
        raise ApiRefusal(422, text, details={"causes": causes}) from failure
    except ValueError as failure:
        raise bad_request(str(failure)) from failure


APPLIED: dict[str, Callable[[Json, Any], Json]] = {
    "application/json-patch+json": _operations,
    "application/merge-patch+json": merged,
    "application/strategic-merge-patch+json": _strategic,
}


def change_of(content_type: str, body: bytes) -> Change:
    """Return what a patch does to an object; raises ApiRefusal for one that cannot be read."""
    apply = APPLIED.get(content_type)
    if apply is None:
        raise unsupported_media_type(tuple(APPLIED))
    patch = parsed(body, kind=list if apply is _operations else dict)
    return lambda value: apply(value, patch)


def parsed(body: bytes, *, kind: type = dict) -> Any:
    """Return a body's JSON; raises ApiRefusal unless it is of that kind."""
    try:
        value = json.loads(body)
    except ValueError as failure:
        raise bad_request(f"error decoding patch or object: {failure}") from failure
    if not isinstance(value, kind):
        raise bad_request(f"json: cannot unmarshal {type(value).__name__} into Go value")
    return value
