"""What is there now, kept true for ever: list, watch, resume, list again.

Rule 1: a watch goes on from the list's version or from the last that the watch told,
never from an object's of the list, which come in any order.
Rule 2: what a relist does not show any more is gone, whoever missed its end.
Rule 3: no event of a version that was already passed is believed.
Rule 4: no failure ends it, and none is passed over: each change of state is one log
line, and `stale_seconds` tells how old the picture may be.
Rule 5: a relist that was asked for (`relist`) goes before all else; if it fails, the
watch goes on where it was.
Knows no HTTP.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, Protocol

from gpushare_plugin.adapters.kube.relisting import Relists, answer
from gpushare_plugin.errors import ApiError, ApiExpired, ApiThrottled
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.cluster import (
    Bookmark,
    Change,
    Deleted,
    Gone,
    Listing,
    Opened,
    Present,
    T,
    Upserted,
    Versioned,
    WatchEvent,
)

log = event_logger(__name__)

LONGEST_REST_SECONDS = 30.0
"""However long a server, or a proxy before it, asks to be left alone: pods come meanwhile."""
STEADY_SECONDS = 5.0
"""A watch that lived so long has shown that the server is well: waits begin small again."""


class Waits(Protocol):
    """How long to wait before the next try: growing, with jitter."""

    def reset(self) -> None:
        """Begin with the shortest wait again."""

    def next_seconds(self) -> float:
        """Return the next wait."""


class Source(Protocol[T]):
    """What is listed and watched."""

    @property
    def what(self) -> str:
        """Its name, for the log."""

    async def listing(self, *, first: bool) -> Listing[T]:
        """Return all objects; raises ApiError."""

    def watch(self, version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield what happens after a version; raises ApiError."""


class _NotYet:
    """The trouble before the first list."""


class Informer(Generic[T]):
    """Holds the objects of a source by their UID, and tells each change.

    Run `run` in a task group. `on_change` is called in its task, once the change is in
    `items`; what it raises ends `run`.

    Attributes:
        synced: set once the first list is held, and never cleared: see `stale_seconds`.
    """

    def __init__(
        self,
        source: Source[T],
        on_change: Callable[[Change[T]], None],
        *,
        waits: Waits,
        clock: Callable[[], float],
    ) -> None:
        """`clock` is monotonic, in seconds."""
        self.synced = asyncio.Event()
        self._source = source
        self._on_change = on_change
        self._waits = waits
        self._clock = clock
        self._items: dict[str, T] = {}
        self._versions: dict[str, str] = {}
        self._version: str | None = None
        self._alive_at_seconds = clock()
        self._trouble: type | None = _NotYet
        self._relists = Relists(source.what)
        self._log = log.bind(what=source.what)

    @property
    def items(self) -> Mapping[str, T]:
        """The objects by UID, as they are at any moment; not a copy."""
        return MappingProxyType(self._items)

    @property
    def stale_seconds(self) -> float:
        """How long ago the server last gave a sign of life; up to a minute is usual."""
        return self._clock() - self._alive_at_seconds

    async def run(self) -> None:
        """List, watch and resume until cancelled."""
        while True:
            begun_seconds = self._clock()
            progress, rest_seconds = False, 0.0
            try:
                progress = await self._live()
            except ApiError as error:
                self._failed(error)
                if isinstance(error, ApiThrottled):
                    rest_seconds = min(error.retry_after_seconds, LONGEST_REST_SECONDS)
            if self._clock() - begun_seconds >= STEADY_SECONDS:
                self._waits.reset()
            if not (progress or self._relists):
                async with self._relists.until_asked():
                    await asyncio.sleep(max(rest_seconds, self._waits.next_seconds()))

    async def relist(self, *, timeout_seconds: float) -> None:
        """List now, from etcd, instead of what goes on; return once that list is held.

        Raises:
            ApiError: it failed, or took longer; what was held before is held on.
        """
        await self._relists.asked(timeout_seconds=timeout_seconds)

    async def _live(self) -> bool:
        """List if need be, and watch once; say whether the watch told of any version."""
        if self._relists:
            await self._relist()
        before = self._version
        async with self._relists.until_asked():
            if self._version is None:
                self._replace(await self._source.listing(first=not self.synced.is_set()))
            before = self._version
            async with aclosing(self._source.watch(self._version or "")) as events:
                async for event in events:
                    self._apply(event)
                    self._alive()
        return self._version != before

    async def _relist(self) -> None:
        """List for those who asked, within the longest time that one of them gave."""
        asked = self._relists.take()
        loop = asyncio.get_running_loop()
        seconds = max(each.until_seconds for each in asked) - loop.time()
        try:
            async with asyncio.timeout(seconds):
                listing = await self._source.listing(first=False)
        except TimeoutError:
            error = self._relists.late(seconds)
            answer(asked, error)
            raise error from None
        except ApiError as error:
            answer(asked, error)
            raise
        self._replace(listing)
        answer(asked)

    def _replace(self, listing: Listing[T]) -> None:
        """Make what is held equal to a list, the gone first: nothing is held twice."""
        self._version = listing.version
        there = {each.uid for each in listing.objects}
        for uid in [uid for uid in self._items if uid not in there]:
            self._remove(uid, self._items[uid])
        for each in listing.objects:
            if self._versions.get(each.uid) != each.version:
                self._put(each)
        self._alive()
        self.synced.set()

    def _apply(self, event: WatchEvent[T]) -> None:
        match event:
            case Opened():
                pass
            case Bookmark(version):
                self._passes(version)
            case Present(found) if self._passes(found.version):
                self._put(found)
            case Deleted(found) if self._passes(found.version) and found.uid in self._items:
                self._remove(found.uid, found.item)

    def _passes(self, version: str) -> bool:
        """Go on to a version, unless it was passed before."""
        if self._version is not None and not is_newer(version, self._version):
            return False
        self._version = version
        return True

    def _put(self, found: Versioned[T]) -> None:
        self._items[found.uid] = found.item
        self._versions[found.uid] = found.version
        self._on_change(Upserted(found.item))

    def _remove(self, uid: str, last: T) -> None:
        del self._items[uid], self._versions[uid]
        self._on_change(Gone(last))

    def _alive(self) -> None:
        self._alive_at_seconds = self._clock()
        if self._trouble is not None:
            self._trouble = None
            self._log.info("watch_works", objects=len(self._items))

    def _failed(self, error: ApiError) -> None:
        if isinstance(error, ApiExpired):
            self._version = None
        if self._trouble is not type(error):
            self._trouble = type(error)
            self._log.warning("watch_failing", error=error, stale_seconds=self.stale_seconds)


def is_newer(version: str, than: str) -> bool:
    """Say whether a resourceVersion came later; for no numbers, whether it is another one."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return bool(version) and version != than
