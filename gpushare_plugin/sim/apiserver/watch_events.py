"""The lines of a watch: what one change is to one selection.

Rule: an object that leaves is shown as it was last, with the version at which it
left, as the real server does. Pure.
"""

from dataclasses import dataclass

from gpushare_plugin.sim.apiserver.kinds import Json, Kind
from gpushare_plugin.sim.apiserver.refusals import ApiRefusal
from gpushare_plugin.sim.apiserver.selectors import Selection
from gpushare_plugin.sim.apiserver.store import Change
from gpushare_plugin.sim.apiserver.stored import StoredObject, encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One event, before it is encoded."""

    type: str
    stored: StoredObject
    version: int

    def line(self, kind: Kind) -> bytes:
        """Return the event as it is sent, in that API version."""
        document = self.stored.document(kind)
        if self.version != self.stored.version:
            document = _at_version(self.stored, self.version, kind)
        return b'{"type":"' + self.type.encode() + b'","object":' + document + b"}\n"


def event_of(change: Change, selected: Selection) -> WatchEvent | None:
    """Return what a change is to a watch of that selection; None for nothing."""
    before, after = change.before, change.after
    was = before is not None and selected.matches(before)
    is_now = not change.removed and selected.matches(after)
    version = after.version
    if is_now:
        return WatchEvent(type="MODIFIED" if was else "ADDED", stored=after, version=version)
    if was and before is not None:
        last = after if change.removed else before
        return WatchEvent(type="DELETED", stored=last, version=version)
    return None


def bookmark(kind: Kind, version: int) -> bytes:
    """Return a BOOKMARK line: an object with nothing but a version."""
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return _line("BOOKMARK", kind.head | {"metadata": metadata})


def error_line(refusal: ApiRefusal) -> bytes:
    """Return an ERROR line."""
    return _line("ERROR", refusal.status())


def _line(event: str, value: Json) -> bytes:
    return encoded({"type": event, "object": value}) + b"\n"


def _at_version(stored: StoredObject, version: int, kind: Kind) -> bytes:
    value = kind.from_stored(stored.value())
    value["metadata"]["resourceVersion"] = str(version)
    return encoded(value)
