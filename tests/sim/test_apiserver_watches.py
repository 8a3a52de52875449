"""Watches: what is sent, from where on, and how they end."""

import asyncio

import pytest

from gpushare_plugin.sim.apiserver import ApiServerSettings, TooOld
from tests.sim.apiserver_peers import NODES, PODS, Api, labelled, node, pod, running

NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def now(api: Api) -> str:
    return str(api.server.state().resource_version)


async def test_changes_after_a_version_come_in_order_with_their_versions() -> None:
    async with running() as api:
        start = int(now(api))
        await api.server.create("pods", pod("a"))
        async with api.watch(PODS, resourceVersion=str(start)) as stream:
            await api.server.set_pod_phase("a", "Running")
            await api.server.delete("pods", "a")
            events = [await stream.next() for _ in range(3)]

        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        objects = [event["object"] for event in events]
        versions = [int(value["metadata"]["resourceVersion"]) for value in objects]
        assert versions == [start + 1, start + 2, start + 3]
        assert [value["status"]["phase"] for value in objects] == ["Pending", "Running", "Running"]
        assert (objects[0]["kind"], objects[0]["apiVersion"]) == ("Pod", "v1")


async def test_changes_of_other_kinds_are_not_sent() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.create("nodes", node("n"))
        await api.server.create("pods", pod("a"))

        assert await stream.told(1) == [("ADDED", "a")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_what_is_there(query: dict[str, str]) -> None:
    async with running() as api:
        await api.server.create("pods", pod("b"))
        await api.server.create("pods", pod("a"))
        async with api.watch(PODS, **query) as stream:
            await api.server.delete("pods", "a")

            assert await stream.told(3) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_an_object_that_enters_the_selection_is_added_and_one_that_leaves_deleted() -> None:
    mine = {"fieldSelector": "spec.nodeName=n,status.phase!=Succeeded"}
    async with running() as api:
        await api.server.create("pods", pod("a"))
        async with api.watch("/api/v1/pods", resourceVersion=now(api), **mine) as stream:
            binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
            await api.post(f"{PODS}/a/binding", binding)
            await api.server.set_pod_phase("a", "Running")
            done = await api.server.set_pod_phase("a", "Succeeded")
            await api.server.delete("pods", "a")
            events = [await stream.next() for _ in range(3)]

            assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
            last = events[2]["object"]
            # As it was while it was selected, at the version at which it left.
            assert last["status"]["phase"] == "Running"
            assert last["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]
            assert await stream.is_silent()


async def test_a_watch_with_a_label_selector() -> None:
    async with running() as api:
        version = now(api)
        await api.server.create("pods", labelled(pod("a"), app="x"))
        await api.server.create("pods", labelled(pod("b"), app="y"))
        async with api.watch(PODS, resourceVersion=version, labelSelector="app=y") as stream:
            await api.server.patch("pods", "a", {"metadata": {"labels": {"app": "y"}}})
            await api.server.patch("pods", "b", {"metadata": {"labels": None}})

            assert await stream.told(3) == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b")]


async def test_a_watch_of_one_namespace() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        other = pod("a")
        other["metadata"]["namespace"] = "team"
        await api.server.create("pods", other)
        await api.server.create("pods", pod("b"))

        assert await stream.told(1) == [("ADDED", "b")]


async def test_a_watch_in_another_api_version_has_its_names() -> None:
    event = {"metadata": {"name": "e"}, "message": "XID 79", "involvedObject": {"name": "n"}}
    async with running() as api, api.watch(NEW_EVENTS, resourceVersion=now(api)) as stream:
        await api.server.create("events", event)
        value = (await stream.next())["object"]

        assert value["apiVersion"] == "events.k8s.io/v1"
        assert (value["note"], value["regarding"]) == ("XID 79", {"name": "n"})


async def test_several_watches_see_the_same() -> None:
    async with (
        running() as api,
        api.watch(NODES, resourceVersion=now(api)) as one,
        api.watch(NODES, resourceVersion=now(api)) as two,
    ):
        await api.server.create("nodes", node("n"))

        assert await one.next() == await two.next()


async def test_a_watch_from_a_version_yet_to_come_waits_for_it() -> None:
    async with running() as api:
        later = str(int(now(api)) + 1)
        async with api.watch(NODES, resourceVersion=later) as stream:
            await api.server.create("nodes", node("a"))
            await api.server.create("nodes", node("b"))

            assert await stream.told(1) == [("ADDED", "b")]


# -------------------------------------------------------------------- bookmarks and ends


async def test_bookmarks_tell_the_version_that_a_watch_has_reached() -> None:
    async with running(ApiServerSettings(bookmark_seconds=0.03)) as api:
        query = {"resourceVersion": now(api), "allowWatchBookmarks": "true"}
        await api.server.create("nodes", node("n"))
        async with api.watch(PODS, **query) as stream:
            event = await stream.next()

            assert event == {
                "type": "BOOKMARK",
                "object": {
                    "kind": "Pod",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": now(api), "creationTimestamp": None},
                },
            }


async def test_who_does_not_ask_for_bookmarks_gets_none() -> None:
    async with (
        running(ApiServerSettings(bookmark_seconds=0.01)) as api,
        api.watch(PODS, resourceVersion=now(api)) as stream,
    ):
        early = await stream.is_silent()
        await api.server.create("pods", pod("a"))

        assert early
        assert await stream.told(1) == [("ADDED", "a")]
        assert await stream.is_silent()


async def test_a_watch_ends_cleanly_when_its_time_is_over() -> None:
    async with running(ApiServerSettings(watch_seconds=0.05)) as api:
        version = now(api)
        await api.server.create("pods", pod("a"))
        async with api.watch(PODS, resourceVersion=version) as stream:
            told, end = await stream.told(1), await stream.next()
        (call,) = await api.server.called("watch pods")

        assert (told, end) == ([("ADDED", "a")], None)
        assert (call.status, call.ended) == (200, True)
        assert api.server.state().watches == ()


async def test_the_clients_timeout_counts() -> None:
    async with (
        running() as api,
        api.watch(PODS, resourceVersion=now(api), timeoutSeconds="1") as stream,
    ):
        async with asyncio.timeout(5):
            end = await stream.response.content.read()

        assert end == b""


async def test_a_client_that_goes_away_ends_its_watch() -> None:
    async with running() as api:
        async with api.watch(PODS, resourceVersion=now(api)):
            await api.server.watched("pods")
        await api.server.until(
            lambda: not api.server.state().watches, failure=lambda: "it is still open"
        )


async def test_open_watches_are_seen() -> None:
    async with running() as api:
        start = int(now(api))
        query = {"labelSelector": "a=b", "fieldSelector": "spec.nodeName=n"}
        async with api.watch(PODS, resourceVersion=str(start), **query):
            await api.server.create("nodes", node("n"))
            await api.server.until(
                lambda: api.server.state().watches[0].position == start + 1,
                failure=lambda: "the watch does not follow",
            )
            (watch,) = (await api.server.watched("pods")).watches

        assert (watch.resource, watch.namespace) == ("pods", "default")
        assert (watch.label_selector, watch.field_selector) == ("a=b", "spec.nodeName=n")
        assert (watch.from_version, watch.events, watch.silent) == (start, 0, False)


# ------------------------------------------------------------------------------ too old


async def too_old(api: Api) -> str:
    version = now(api)
    await api.server.create("pods", pod("a"))
    await api.server.compact()
    return version


async def test_a_watch_from_a_version_that_is_gone_gets_one_error_event() -> None:
    async with running() as api:
        version = await too_old(api)
        async with api.watch(PODS, resourceVersion=version) as stream:
            event, end = await stream.next(), await stream.next()

        assert stream.response.status == 200
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"] == f"too old resource version: {version} ({now(api)})"
        assert end is None


async def test_or_it_is_answered_with_410_where_so_set() -> None:
    async with running(ApiServerSettings(too_old=TooOld.HTTP)) as api:
        reply = await api.get(PODS, watch="true", resourceVersion=await too_old(api))

        assert reply.refusal[:2] == (410, "Expired")


async def test_the_history_is_as_long_as_was_set() -> None:
    async with running(ApiServerSettings(history_changes=2)) as api:
        versions = []
        for name in "abcdefg":
            versions.append(now(api))
            await api.server.create("pods", pod(name))
        async with api.watch(PODS, resourceVersion=versions[-2]) as stream:
            told = await stream.told(2)
        async with api.watch(PODS, resourceVersion=versions[-3]) as stream:
            event = await stream.next()

        assert told == [("ADDED", "f"), ("ADDED", "g")]
        assert event["type"] == "ERROR"


async def test_a_compaction_does_not_harm_a_watch_that_has_seen_everything() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.create("pods", pod("a"))
        first = await stream.told(1)
        await api.server.until(
            lambda: str(api.server.state().watches[0].position) == now(api),
            failure=lambda: "the watch does not follow",
        )
        await api.server.compact()
        await api.server.create("pods", pod("b"))

        assert (first, await stream.told(1)) == ([("ADDED", "a")], [("ADDED", "b")])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersion": "x"}, 400),
        ({"timeoutSeconds": "x"}, 400),
        ({"fieldSelector": "spec.x=y"}, 400),
        ({"sendInitialEvents": "true"}, 422),
    ],
)
async def test_a_watch_that_makes_no_sense_is_refused(query: dict[str, str], status: int) -> None:
    async with running() as api:
        reply = await api.get(PODS, watch="1", **query)

        assert reply.refusal[0] == status
