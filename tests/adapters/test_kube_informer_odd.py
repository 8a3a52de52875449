"""The picture stays true through replies that no server of ours would give, byte by byte."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gpushare_plugin.adapters.kube.informer import Informer, is_newer
from gpushare_plugin.adapters.kube.sources import PodSource
from gpushare_plugin.errors import ApiThrottled
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports.cluster import Bookmark, Listing, Node, WatchEvent
from tests.adapters.kube_servers import (
    Hanging,
    Scripted,
    answer,
    client_of,
    following,
    scripted,
    stream,
)
from tests.histories.virtual_time import run


def item(name: str, version: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": f"{version}",
        }
    }


def listing(version: int, *items: dict[str, Any]) -> bytes:
    return answer(
        json.dumps({"metadata": {"resourceVersion": f"{version}"}, "items": items}).encode()
    )


def event(kind: str, found: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": f"{version}"}})


def gone() -> bytes:
    return event(
        "ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"}
    )


def watched_from(server: Scripted) -> list[str]:
    """The versions that watches began from, in order."""
    heads = [head.split()[1] for head in server.requests if "watch=1" in head]
    return [head.split("resourceVersion=")[1].split("&")[0] for head in heads]


async def asked(server: Scripted, *, times: int) -> None:
    """Wait until so many requests came."""
    async with asyncio.timeout(5):
        while len(server.requests) < times:
            server.asked.clear()
            await server.asked.wait()


class SendsAway:
    """A source that asks to be left alone for a day, once, and is well then."""

    what = "pods"

    def __init__(self) -> None:
        self._lists = 0

    async def listing(self, *, first: bool) -> Listing[Node]:
        del first
        self._lists += 1
        if self._lists == 1:
            raise ApiThrottled("maintenance", retry_after_seconds=86_400)
        return Listing(version="1", objects=())

    async def watch(self, version: str) -> AsyncGenerator[WatchEvent[Node], None]:
        del version
        yield Bookmark("2")
        await asyncio.Event().wait()


def test_a_server_that_asks_for_a_day_of_rest_is_asked_again_within_a_minute() -> None:
    async def waited_seconds() -> float:
        clock = asyncio.get_running_loop().time
        begun_seconds = clock()
        informer = Informer(SendsAway(), lambda _: None, waits=BackOff(), clock=clock)
        running = asyncio.create_task(informer.run())
        await informer.synced.wait()
        running.cancel()
        return clock() - begun_seconds

    assert 10 < run(waited_seconds()) < 60


async def test_b88_a_watch_begins_at_the_lists_version_never_at_an_items() -> None:
    async with (
        scripted(
            listing(100, item("a", 70), item("b", 90), item("c", 20)), Hanging(stream())
        ) as api,
        client_of(api.address) as client,
        following(PodSource(client)) as seen,
    ):
        await seen.informer.synced.wait()
        await asked(api, times=2)

    assert watched_from(api) == ["100"]


async def test_b88_old_events_that_come_again_are_not_believed() -> None:
    again = stream(
        event("ADDED", item("a", 70)),
        event("ADDED", item("gone", 95)),
        event("MODIFIED", item("a", 120)),
        event("DELETED", item("b", 105)),
        event("DELETED", item("never-heard-of", 125)),
        event("MODIFIED", item("a", 110)),
        event("ADDED", item("c", 130)),
    )
    async with (
        scripted(listing(100, item("a", 70), item("b", 90)), Hanging(again)) as api,
        client_of(api.address) as client,
        following(PodSource(client)) as seen,
    ):
        await seen.until(lambda: "default/c" in seen.names)

        assert seen.told == ["+default/a", "+default/b", "+default/a", "+default/c"]


async def test_b86_an_error_event_in_the_stream_lists_anew_and_finds_the_deletions() -> None:
    async with (
        scripted(
            listing(100, item("a", 70), item("b", 90)),
            stream(event("ADDED", item("c", 101)), gone()),
            listing(200, item("b", 90), item("c", 150)),
            Hanging(stream(event("ADDED", item("d", 201)))),
        ) as api,
        client_of(api.address) as client,
        following(PodSource(client)) as seen,
    ):
        await seen.until(lambda: "default/d" in seen.names)

        assert seen.told[2:] == ["+default/c", "-default/a", "+default/c", "+default/d"]
        assert watched_from(api) == ["100", "200"]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(stream(bookmark(140), event("ADDED", item("x", 150))[:-20]), id="cut-short"),
        pytest.param(stream(bookmark(140), b"<html>\n"), id="garbage"),
        pytest.param(stream(bookmark(140), b'{"type":"ADDED"}\n'), id="no-object"),
        pytest.param(stream(bookmark(140), b'{"type":"NEWS","object":{}}\n'), id="unknown-type"),
        pytest.param(stream(bookmark(140), b'{"type":"\xff"}\n'), id="not-utf-8"),
        pytest.param(
            stream(bookmark(140), event("ERROR", {"code": 500, "message": "etcd"})), id="error-500"
        ),
        pytest.param(stream(bookmark(140), event("ERROR", {})), id="error-without-words"),
        pytest.param(stream(bookmark(140), b"\n\n"), id="empty-lines"),
        pytest.param(
            stream(bookmark(140)).replace(
                b"Connection", b"Transfer-Encoding: chunked\r\nConnection"
            ),
            id="not-the-chunks-it-says",
        ),
    ],
)
async def test_b86_a_broken_watch_is_resumed_from_the_last_version_that_came_whole(
    broken: bytes,
) -> None:
    last = Hanging(stream(event("ADDED", item("z", 160))))
    async with (
        scripted(listing(100), stream(bookmark(140)), broken, last) as api,
        client_of(api.address) as client,
        following(PodSource(client)) as seen,
    ):
        await seen.until(lambda: "default/z" in seen.names)

        assert watched_from(api) == ["100", "140", "140"]
        assert seen.told == ["+default/z"]


async def test_an_answer_that_is_no_list_never_ends_the_pods_that_are_known() -> None:
    async with (
        scripted(
            listing(100, item("a", 70)),
            stream(gone()),
            answer(b"{}"),
            answer(b"<html>login</html>"),
            answer(b'{"metadata":{"resourceVersion":"150"},"items":[{}]}'),
            listing(200, item("a", 70), item("b", 180)),
        ) as api,
        client_of(api.address) as client,
        following(PodSource(client)) as seen,
    ):
        await seen.until(lambda: "default/b" in seen.names)

        assert seen.told == ["+default/a", "+default/b"]


async def test_a_watch_that_ends_without_a_word_is_not_opened_again_in_haste() -> None:
    async with (
        scripted(listing(100), stream(), stream(), stream(bookmark(101)), Hanging()) as api,
        client_of(api.address) as client,
        following(PodSource(client)) as seen,
    ):
        await asked(api, times=5)

        assert watched_from(api) == ["100", "100", "100", "101"]
        assert seen.waits.waits == 2


async def test_the_first_waits_come_again_after_a_watch_that_lived_long() -> None:
    now = [0.0]

    async with (
        scripted(listing(100), stream(bookmark(101)), stream(bookmark(102)), Hanging()) as api,
        client_of(api.address) as client,
    ):

        def clock() -> float:
            now[0] += 3.0
            return now[0]

        async with following(PodSource(client), clock=clock) as seen:
            await asked(api, times=4)

            assert seen.waits.resets >= 1
            assert seen.waits.waits == 0


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("9", "9", False),
        ("", "9", False),
        ("x", "y", True),
        ("x", "x", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer


def test_a_node_is_shown_by_its_name() -> None:
    assert str(Node(name="n", uid="u")) == "n"
