"""Lists: selected, sorted, in pages that all show the same moment.

Rule 1: a page is cut from the tuple of objects as it was at the first page; the
token names that version and where to go on.
Rule 2: with a selector nobody knows how much remains, so nothing is said of it.
"""

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.apiserver.kinds import Json, Kind, stored_kind
from gpushare_plugin.sim.apiserver.refusals import (
    EXPIRED_CONTINUE,
    bad_request,
    expired,
    version_too_large,
)
from gpushare_plugin.sim.apiserver.selectors import Selection
from gpushare_plugin.sim.apiserver.store import Store
from gpushare_plugin.sim.apiserver.stored import StoredObject, encoded

_SNAPSHOTS_KEPT = 64
_LATEST = -1
"""The version in a token that goes on with whatever is there now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Where a page begins."""

    version: int
    after: tuple[str, str] | None


class Pages:
    """Answers lists, and remembers those that are not at their end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: dict[tuple[Kind, int], tuple[StoredObject, ...]] = {}

    def answer(self, kind: Kind, selected: Selection, query: Mapping[str, str]) -> bytes:
        """Return the body of one list; raises ApiRefusal."""
        start = self._start(query)
        found, version = self._snapshot(kind, start)
        if start.after is not None:
            found = found[bisect_right(found, start.after, key=lambda stored: stored.key) :]
        limit = _whole_number(query, "limit")
        # A list of "any version" comes from the cache, which knows no pages.
        if query.get("resourceVersion") == "0":
            limit = 0
        page, rest = _cut(found, selected, limit)
        metadata: Json = {"resourceVersion": str(version)}
        if rest:
            self._keep(kind, version, self._store.all(kind) if start.after is None else None)
            metadata["continue"] = _token(version, page[-1].key)
            if not selected.labels and not selected.fields:
                metadata["remainingItemCount"] = sum(map(selected.matches, rest))
        head = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata}
        items = b",".join(stored.item(kind) for stored in page)
        return encoded(head)[:-1] + b',"items":[' + items + b"]}"

    def _start(self, query: Mapping[str, str]) -> _Start:
        version = _whole_number(query, "resourceVersion")
        if token := query.get("continue", ""):
            if version:
                raise bad_request("specifying resource version is not allowed when using continue")
            return _parsed(token)
        if version > self._store.version:
            raise version_too_large(version, self._store.version)
        exact = query.get("resourceVersionMatch") == "Exact"
        if exact and version != self._store.version:
            raise expired("The resourceVersion for the provided list is too old.")
        return _Start(version=_LATEST, after=None)

    def _snapshot(self, kind: Kind, start: _Start) -> tuple[tuple[StoredObject, ...], int]:
        if start.version == _LATEST:
            return self._store.all(kind), self._store.version
        kept = self._snapshots.get((stored_kind(kind), start.version))
        # A compaction takes the snapshots that are older with it.
        if kept is None or start.version < self._store.oldest:
            refusal = expired(EXPIRED_CONTINUE)
            refusal.continue_token = _token(_LATEST, start.after or ("", ""))
            raise refusal
        return kept, start.version

    def _keep(self, kind: Kind, version: int, found: tuple[StoredObject, ...] | None) -> None:
        key = (stored_kind(kind), version)
        if found is None:
            found = self._snapshots.get(key, self._store.all(kind))
        # Put at the end again: the ones that are read now are the last to go.
        self._snapshots.pop(key, None)
        self._snapshots[key] = found
        while len(self._snapshots) > _SNAPSHOTS_KEPT:
            del self._snapshots[next(iter(self._snapshots))]


def _cut(
    found: tuple[StoredObject, ...], selected: Selection, limit: int
) -> tuple[list[StoredObject], tuple[StoredObject, ...]]:
    """Return the page, and everything behind it if anything selected is there."""
    page: list[StoredObject] = []
    for position, stored in enumerate(found):
        if not selected.matches(stored):
            continue
        if limit and len(page) == limit:
            return page, found[position:]
        page.append(stored)
    return page, ()


def _token(version: int, after: tuple[str, str]) -> str:
    place = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(after) + "\0"}
    return base64.urlsafe_b64encode(encoded(place)).decode().rstrip("=")


def _parsed(token: str) -> _Start:
    try:
        place = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = place["start"].removesuffix("\0").partition("/")
        return _Start(version=int(place["rv"]), after=(namespace, name))
    except (binascii.Error, ValueError, KeyError, TypeError) as failure:
        raise bad_request(f"continue key is not valid: {failure}") from failure


def _whole_number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number') from None
