"""Keeps a copy of one resource: list, then watch from the list's version, for ever.

Rule 1: a watch starts from the list's version or the last event's, bookmarks included, never
from an item's; a relist finds what went away meanwhile.
Rule 2: every change is told once, as before and after; None for not there.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpushare_plugin.sim.scheduler.api_client import GONE, ApiClient, ApiError
from gpushare_plugin.sim.scheduler.objects import Json

_T = TypeVar("_T")
_WATCH_SECONDS = (300, 600)
"""client-go asks for a random time between these."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[_T]):
    """What is reflected, and how it is read."""

    path: str
    read: Callable[[Json], _T]
    told: Callable[[_T | None, _T | None], None]
    field_selector: str = ""


class Reflector(Generic[_T]):
    """The copy of one resource."""

    def __init__(
        self, api: ApiClient, resource: Resource[_T], *, retry_seconds: float, chance: random.Random
    ) -> None:
        self.synced = asyncio.Event()
        self._api = api
        self._resource = resource
        self._retry_seconds = retry_seconds
        self._chance = chance
        self._known: dict[str, tuple[str, _T]] = {}
        """Version and value by UID."""
        self._version = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                if error.code == GONE:
                    self._version = ""
                    continue
                _log.warning("%s: %s", self._resource.path, error)
                await asyncio.sleep(self._retry_seconds)

    async def _list(self) -> None:
        resource = self._resource
        found = await self._api.list(resource.path, field_selector=resource.field_selector)
        items = {item["metadata"]["uid"]: item for item in found["items"] or ()}
        for uid in self._known.keys() - items.keys():
            self._gone(uid)
        for item in items.values():
            self._there(item)
        self._version = found["metadata"]["resourceVersion"]
        self.synced.set()

    async def _watch(self) -> None:
        events = self._api.watch(
            self._resource.path,
            version=self._version,
            seconds=self._chance.randint(*_WATCH_SECONDS),
            field_selector=self._resource.field_selector,
        )
        async for event in events:
            kind, value = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(value.get("code", 0), value.get("message", "an error event"))
            if kind == "DELETED":
                self._gone(value["metadata"]["uid"])
            elif kind != "BOOKMARK":
                self._there(value)
            self._version = value["metadata"]["resourceVersion"]

    def _there(self, value: Json) -> None:
        uid, version = value["metadata"]["uid"], value["metadata"]["resourceVersion"]
        before = self._known.get(uid)
        if before is not None and before[0] == version:
            return
        try:
            after = self._resource.read(value)
        except ValueError as error:
            # The API server lets no such object in; a test may.
            _log.warning("%s %s: %s", self._resource.path, value["metadata"]["name"], error)
            return
        self._known[uid] = (version, after)
        self._resource.told(before[1] if before else None, after)

    def _gone(self, uid: str) -> None:
        if (before := self._known.pop(uid, None)) is not None:
            self._resource.told(before[1], None)
