"""Every object, the counter of versions, and what changed in what order.

Rule 1: each change takes exactly one number of one counter over all kinds, so
the changes after a version are the tail of the history.
Rule 2: what the history no longer has is told, never passed over.
Knows no HTTP and no rules about who may change what.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpushare_plugin.sim.apiserver.kinds import Json, Kind, stored_kind
from gpushare_plugin.sim.apiserver.stored import StoredObject, managed_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write."""

    before: StoredObject | None
    """None for one that was created."""
    after: StoredObject
    """For one that was removed, how it was at last, with the version of its removal."""
    removed: bool = False


class HistoryGone(Exception):
    """The history does not reach back that far."""


class Store:
    """The objects as they are now, and the last changes."""

    def __init__(self, *, history_changes: int, managed_fields_bytes: int) -> None:
        self.version = 1
        """The resourceVersion of the latest change."""
        self.listeners: list[Callable[[], None]] = []
        """Called after every change."""
        self._objects: dict[Kind, dict[tuple[str, str], StoredObject]] = {}
        self._sorted: dict[Kind, tuple[StoredObject, ...]] = {}
        self._history: list[Change] = []
        self._history_changes = history_changes
        self._compacted = 1
        self._managed_fields = managed_fields(managed_fields_bytes)

    # ------------------------------------------------------------------------ reading

    def find(self, kind: Kind, namespace: str, name: str) -> StoredObject | None:
        """Return the object of that name, or None."""
        return self._objects.get(stored_kind(kind), {}).get((namespace, name))

    def all(self, kind: Kind) -> tuple[StoredObject, ...]:
        """Return every object of a kind, sorted; a later change makes another tuple."""
        kind = stored_kind(kind)
        if kind not in self._sorted:
            found = self._objects.get(kind, {}).values()
            self._sorted[kind] = tuple(sorted(found, key=lambda stored: stored.key))
        return self._sorted[kind]

    @property
    def oldest(self) -> int:
        """The oldest version that a watch can start from."""
        return max(self._compacted, self.version - self._history_changes)

    def changes_after(self, version: int) -> Sequence[Change]:
        """Return what changed since; raises HistoryGone if that is not known any more."""
        if version < self.oldest:
            raise HistoryGone
        start = bisect_left(self._history, version + 1, key=lambda change: change.after.version)
        return self._history[start:]

    # ------------------------------------------------------------------------ writing

    def seal(self, kind: Kind, value: Json, *, version: int) -> StoredObject:
        """Return the value as an object of that version, without keeping it."""
        return StoredObject.seal(
            stored_kind(kind), value, version=version, managed_fields=self._managed_fields
        )

    def put(self, kind: Kind, value: Json) -> StoredObject:
        """Keep a new state of an object, or a new object."""
        stored = self.seal(kind, value, version=self.version + 1)
        table = self._objects.setdefault(stored.kind, {})
        before = table.get(stored.key)
        table[stored.key] = stored
        self._record(Change(before=before, after=stored))
        return stored

    def remove(self, stored: StoredObject) -> StoredObject:
        """Forget an object; return how it was, with the version of its removal."""
        del self._objects[stored.kind][stored.key]
        last = self.seal(stored.kind, stored.value(), version=self.version + 1)
        self._record(Change(before=stored, after=last, removed=True))
        return last

    def compact(self) -> None:
        """Forget all history: older versions than the present one are gone."""
        self._compacted = self.version
        self._history.clear()

    def _record(self, change: Change) -> None:
        self.version = change.after.version
        self._sorted.pop(change.after.kind, None)
        self._history.append(change)
        # In strides, since each cut moves the whole list.
        if len(self._history) >= 2 * self._history_changes:
            del self._history[: -self._history_changes]
        for listener in self.listeners:
            listener()
