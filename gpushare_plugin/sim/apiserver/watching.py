"""Watches: changes as JSON lines, from a version on, for as long as both sides live.

Rule 1: a watch is a position in the history, nothing is queued for it; one that
falls behind the history is told so (410) and ends.
Rule 2: a silent watch never ends by itself, and a cut one ends without a goodbye.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import web

from gpushare_plugin.sim.apiserver.faults import FaultsInForce
from gpushare_plugin.sim.apiserver.kinds import Kind, stored_kind
from gpushare_plugin.sim.apiserver.refusals import (
    ApiRefusal,
    bad_request,
    expired,
    invalid,
)
from gpushare_plugin.sim.apiserver.selectors import Selection, selection
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings, TooOld
from gpushare_plugin.sim.apiserver.states import WatchState
from gpushare_plugin.sim.apiserver.store import HistoryGone, Store
from gpushare_plugin.sim.apiserver.targets import Target, is_true
from gpushare_plugin.sim.apiserver.watch_events import (
    WatchEvent,
    bookmark,
    error_line,
    event_of,
)


@dataclass(slots=True, kw_only=True)
class Watch:
    """One open watch."""

    number: int
    user: str
    kind: Kind
    selected: Selection
    query: Mapping[str, str]
    from_version: int
    position: int
    with_present: bool
    """Whether it begins with what is there already."""
    bookmarks: bool
    seconds: float
    silent: bool = False
    events: int = 0
    cut: Callable[[], None] = lambda: None
    """Breaks the connection."""
    over: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def state(self) -> WatchState:
        """Return what a test sees of it."""
        return WatchState(
            number=self.number,
            user=self.user,
            resource=self.kind.resource,
            namespace=self.selected.namespace,
            label_selector=self.query.get("labelSelector", ""),
            field_selector=self.query.get("fieldSelector", ""),
            from_version=self.from_version,
            position=self.position,
            events=self.events,
            silent=self.silent,
        )


class Watches:
    """Opens watches, and serves them until they end."""

    def __init__(
        self,
        store: Store,
        faults: FaultsInForce,
        settings: ApiServerSettings,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._faults = faults
        self._settings = settings
        self._changed = changed
        self._open: list[Watch] = []
        store.listeners.append(self._wake_all)

    @property
    def open(self) -> tuple[Watch, ...]:
        """The watches that have not ended, oldest first."""
        return tuple(self._open)

    def begin(self, target: Target, query: Mapping[str, str], *, number: int, user: str) -> Watch:
        """Read what a watch asks for; raises ApiRefusal."""
        kind = target.kind
        if is_true(query.get("sendInitialEvents", "")):
            cause = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList "
            raise invalid(kind, "", "sendInitialEvents", cause + "feature gate is enabled")
        version = _number(query, "resourceVersion")
        watch = Watch(
            number=number,
            user=user,
            kind=kind,
            selected=selection(kind, target.namespace, query),
            query=query,
            from_version=version,
            position=version or self._store.version,
            with_present=version == 0,
            bookmarks=is_true(query.get("allowWatchBookmarks", "")),
            seconds=_number(query, "timeoutSeconds") or self._settings.watch_seconds,
        )
        if self._settings.too_old is TooOld.HTTP and watch.position < self._store.oldest:
            raise self._too_old(watch)
        return watch

    async def serve(self, watch: Watch, response: web.StreamResponse) -> None:
        """Send events until the watch is over; the caller prepares and ends the response."""
        self._open.append(watch)
        self._changed()
        try:
            await self._send_all(watch, response)
        finally:
            self._open.remove(watch)
            self._changed()

    # ------------------------------------------------------------------------- stream

    async def _send_all(self, watch: Watch, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + watch.seconds
        bookmark_at = loop.time() + self._settings.bookmark_seconds
        if watch.with_present and not watch.silent:
            # Not the version at which it was asked for: what came since is present too.
            watch.position = self._store.version
            await self._send(watch, response, self._present(watch))
        while not watch.over:
            if watch.silent:
                await _woken(watch, until=None)
                continue
            try:
                await self._send_news(watch, response)
            except HistoryGone:
                await self._write(watch, response, error_line(self._too_old(watch)))
                return
            if loop.time() >= ends_at:
                return
            if loop.time() >= bookmark_at:
                await self._send_bookmark(watch, response)
                bookmark_at = loop.time() + self._settings.bookmark_seconds
            next_at = min(ends_at, bookmark_at) if watch.bookmarks else ends_at
            await _woken(watch, until=next_at)

    async def _send_news(self, watch: Watch, response: web.StreamResponse) -> None:
        late_seconds = self._faults.lateness_seconds(watch.kind.resource)
        if late_seconds and watch.position < self._store.version:
            await asyncio.sleep(late_seconds)
        changes = self._store.changes_after(watch.position)
        kind = stored_kind(watch.kind)
        events = (
            event_of(change, watch.selected) for change in changes if change.after.kind is kind
        )
        newest = max(watch.position, self._store.version)
        await self._send(watch, response, (event for event in events if event is not None))
        if newest != watch.position:
            watch.position = newest
            self._changed()

    def _present(self, watch: Watch) -> Iterator[WatchEvent]:
        for stored in self._store.all(watch.kind):
            if watch.selected.matches(stored):
                yield WatchEvent(type="ADDED", stored=stored, version=stored.version)

    async def _send(
        self, watch: Watch, response: web.StreamResponse, events: Iterator[WatchEvent]
    ) -> None:
        lines = [
            event.line(watch.kind)
            for event in events
            if not self._faults.take_event(watch.kind.resource, event.stored.name, event.type)
        ]
        if lines:
            await self._write(watch, response, *lines)

    async def _send_bookmark(self, watch: Watch, response: web.StreamResponse) -> None:
        if watch.bookmarks and not self._faults.take_event(watch.kind.resource, "", "BOOKMARK"):
            await self._write(watch, response, bookmark(watch.kind, watch.position))

    async def _write(self, watch: Watch, response: web.StreamResponse, *lines: bytes) -> None:
        await response.write(b"".join(lines))
        watch.events += len(lines)
        self._changed()

    # ------------------------------------------------------------------------- around

    def _wake_all(self) -> None:
        for watch in self._open:
            watch.wake.set()

    def _too_old(self, watch: Watch) -> ApiRefusal:
        oldest = self._store.oldest
        return expired(f"too old resource version: {watch.position} ({oldest})")


async def _woken(watch: Watch, *, until: float | None) -> None:
    """Wait for a change of any object, or for that moment of the loop's clock."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await watch.wake.wait()
    watch.wake.clear()


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)
