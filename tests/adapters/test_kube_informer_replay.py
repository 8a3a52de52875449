"""Whatever is lost, repeated or cut off: the picture ends up as the server's."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare_plugin.errors import ApiExpired, ApiUnavailable
from gpushare_plugin.ports.cluster import (
    Bookmark,
    Change,
    Deleted,
    Listing,
    Opened,
    Present,
    Upserted,
    Versioned,
    WatchEvent,
)
from tests.adapters.kube_servers import following

Object = tuple[str, str, int]
"""The name, the UID and the version."""

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abc")),
        st.tuples(
            st.sampled_from(["send", "send-again", "bookmark", "end", "break", "forget"]),
            st.just(""),
        ),
    ),
    max_size=14,
)


@dataclass
class Played:
    """A server that plays steps: it changes its objects, tells of them late, and fails."""

    steps: list[tuple[str, str]]
    what: str = "objects"
    version: int = 10
    objects: dict[str, Versioned[Object]] = field(default_factory=dict)
    history: list[tuple[int, WatchEvent[Object]]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def listing(self, *, first: bool) -> Listing[Object]:
        del first
        newest_first = sorted(self.objects.values(), key=lambda found: found.item[2], reverse=True)
        return Listing(version=str(self.version), objects=tuple(newest_first))

    async def watch(self, version: str) -> AsyncGenerator[WatchEvent[Object], None]:
        position = int(version)
        yield Opened()
        while self.steps:
            step, name = self.steps.pop(0)
            self._change(step, name)
            if step == "send-again":
                position = 0
            if step in {"send", "send-again", "bookmark"}:
                for event in self._after(position):
                    yield event
                position = self.version
            if step == "bookmark":
                yield Bookmark(str(self.version))
            if step == "end":
                return
            if step == "break":
                raise ApiUnavailable("broke")
            if step == "forget":
                raise ApiExpired("forgotten")
        for event in self._after(position):
            yield event
        self.over.set()
        await asyncio.Event().wait()

    def _change(self, step: str, name: str) -> None:
        if step == "put":
            self.version += 1
            uid = self.objects[name].uid if name in self.objects else f"{name}{self.version}"
            found = Versioned(uid=uid, version=str(self.version), item=(name, uid, self.version))
            self.objects[name] = found
            self.history.append((self.version, Present(found)))
        if step == "delete" and name in self.objects:
            self.version += 1
            last = self.objects.pop(name)
            found = Versioned(uid=last.uid, version=str(self.version), item=last.item)
            self.history.append((self.version, Deleted(found)))

    def _after(self, position: int) -> list[WatchEvent[Object]]:
        return [event for version, event in self.history if version > position]


@settings(derandomize=True, deadline=None, database=None, max_examples=200)
@given(steps=steps)
def test_b88_the_picture_ends_up_as_the_servers(steps: list[tuple[str, str]]) -> None:
    asyncio.run(_play(Played(steps=list(steps))))


async def _play(server: Played) -> None:
    async with following(server) as seen:
        async with asyncio.timeout(5):
            await server.over.wait()

        assert seen.informer.items == {each.uid: each.item for each in server.objects.values()}
        assert _picture(seen.changes) == {name: each.item for name, each in server.objects.items()}


def _picture(changes: list[Change[Object]]) -> dict[str, Object]:
    """Return what one knows who only heard the changes, by name."""
    picture: dict[str, Object] = {}
    for change in changes:
        name, uid, version = change.item
        if isinstance(change, Upserted):
            # A name is never held twice (its forerunner is told gone first), nor goes back.
            assert name not in picture or picture[name][1] == uid
            assert name not in picture or picture[name][2] < version
            picture[name] = change.item
        else:
            del picture[name]
    return picture
