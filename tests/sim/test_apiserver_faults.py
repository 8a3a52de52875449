"""Faults on request, and the server that is away."""

import asyncio

import aiohttp
import pytest

from gpushare_plugin.sim.apiserver import (
    ApiServerSettings,
    Fault,
    FaultKind,
    UnknownObjectError,
)
from tests.sim.apiserver_peers import NODES, PODS, Api, node, pod, running

LABEL = {"metadata": {"labels": {"a": "b"}}}


def now(api: Api) -> str:
    return str(api.server.state().resource_version)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (409, "Conflict"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ],
)
async def test_calls_can_be_refused_with_a_status_and_nothing_is_done(
    status: int, reason: str
) -> None:
    async with running() as api:
        before = await api.server.create("nodes", node("n"))
        await api.server.inject(Fault(kind=FaultKind.STATUS, status=status, message="because"))
        reply = await api.patch(f"{NODES}/n", LABEL)

        assert reply.refusal == (status, reason, "because")
        assert "Retry-After" not in reply.headers
        assert api.server.get("nodes", "n") == before


async def test_a_refusal_can_say_when_to_come_again() -> None:
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.STATUS, status=429, retry_after_seconds=7))
        reply = await api.get(NODES)

        assert reply.headers["Retry-After"] == "7"
        assert reply.json["details"]["retryAfterSeconds"] == 7


async def test_a_fault_strikes_as_often_as_it_says() -> None:
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.STATUS, count=2))
        found = [(await api.get(NODES)).status for _ in range(3)]

        assert found == [500, 500, 200]
        assert api.server.state().faults == {}


async def test_a_fault_without_a_count_strikes_until_it_is_lifted() -> None:
    async with running() as api:
        first = await api.server.inject(Fault(kind=FaultKind.STATUS, resource="nodes"))
        await api.server.inject(Fault(kind=FaultKind.STATUS, resource="pods"))
        seen = api.server.state().faults
        before = [(await api.get(path)).status for path in (NODES, PODS, NODES)]
        await api.server.lift(first)
        between = [(await api.get(path)).status for path in (NODES, PODS)]
        await api.server.lift_all()
        after = (await api.get(PODS)).status

        assert seen.keys() == {"1", "2"}
        assert (before, between, after) == ([500, 500, 500], [200, 500], 200)


async def test_a_fault_that_never_was_cannot_be_lifted() -> None:
    async with running() as api:
        with pytest.raises(UnknownObjectError, match="there never was a fault 3"):
            await api.server.lift(3)


@pytest.mark.parametrize(
    ("fault", "struck"),
    [
        (Fault(kind=FaultKind.STATUS, verbs=("patch",)), (False, True, True)),
        (Fault(kind=FaultKind.STATUS, resource="pods"), (True, True, False)),
        (Fault(kind=FaultKind.STATUS, resource="pods/status"), (False, False, True)),
        (Fault(kind=FaultKind.STATUS, resource="pods*"), (True, True, True)),
        (Fault(kind=FaultKind.STATUS, name="a*"), (True, True, True)),
        (Fault(kind=FaultKind.STATUS, name="b"), (False, False, False)),
    ],
)
async def test_a_fault_strikes_those_that_it_names(
    fault: Fault, struck: tuple[bool, bool, bool]
) -> None:
    async with running() as api:
        await api.server.create("pods", pod("abc"))
        await api.server.inject(fault)
        replies = (
            await api.get(f"{PODS}/abc"),
            await api.patch(f"{PODS}/abc", LABEL),
            await api.patch(f"{PODS}/abc/status", LABEL),
        )

        assert tuple(reply.status == 500 for reply in replies) == struck


async def test_a_call_can_be_accepted_and_never_answered() -> None:
    async with running() as api:
        before = await api.server.create("nodes", node("n"))
        await api.server.inject(Fault(kind=FaultKind.HANG, verbs=("patch",), count=1))
        hanging = asyncio.create_task(api.patch(f"{NODES}/n", LABEL), name="a call that hangs")
        await api.server.until(
            lambda: any(call.resource == "nodes" for call in api.server.calls()),
            failure=lambda: "the call never came",
        )
        hanging.cancel()
        await asyncio.wait([hanging])
        (call,) = await api.server.called("patch nodes")

        assert (call.status, call.ended) == (0, True)
        assert api.server.get("nodes", "n") == before
        assert (await api.get(NODES)).status == 200


async def test_calls_can_be_slow() -> None:
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.SLOW, seconds=0.02, verbs=("list",)))
        reply = await api.get(NODES)
        (call,) = await api.server.called("list nodes")

        assert reply.status == 200
        assert call.seconds > 0.015


async def test_a_slow_call_can_be_refused_too() -> None:
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.SLOW, seconds=0.01))
        await api.server.inject(Fault(kind=FaultKind.STATUS, status=503))

        assert (await api.get(NODES)).status == 503


async def test_a_call_can_be_done_and_its_answer_lost() -> None:
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.LOSE_ANSWER, verbs=("create",), count=1))
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await api.post(NODES, node("n"))

        assert api.server.get("nodes", "n")
        assert (await api.get(NODES)).status == 200


async def test_a_call_can_be_done_late_though_its_client_has_gone() -> None:
    async with running() as api:
        before = await api.server.create("nodes", node("n"))
        late = Fault(kind=FaultKind.APPLY_LATE, verbs=("patch",), seconds=0.2, count=1)
        await api.server.inject(late)
        leaving = asyncio.create_task(api.patch(f"{NODES}/n", LABEL), name="a call that is left")
        await api.server.until(
            lambda: any(call.resource == "nodes" for call in api.server.calls()),
            failure=lambda: "the call never came",
        )
        leaving.cancel()
        await asyncio.wait([leaving])
        (call,) = await api.server.called("patch nodes")
        early = api.server.get("nodes", "n")
        after = await api.server.until_object(
            "nodes", "n", lambda found: "labels" in found["metadata"]
        )

        assert (call.status, call.ended) == (0, True)
        assert early == before
        assert after["metadata"]["labels"] == {"a": "b"}


async def test_who_waits_for_a_late_call_is_answered() -> None:
    async with running() as api:
        await api.server.create("nodes", node("n"))
        await api.server.inject(Fault(kind=FaultKind.APPLY_LATE, seconds=0.02))
        done = await api.patch(f"{NODES}/n", LABEL)
        refused = await api.patch(f"{NODES}/m", LABEL)

        assert (done.status, refused.status) == (200, 404)


async def test_a_late_call_is_judged_by_what_is_there_when_it_is_done() -> None:
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "late"}}
    async with running() as api:
        await api.server.create("pods", pod("a"))
        await api.server.inject(Fault(kind=FaultKind.APPLY_LATE, seconds=0.2, count=1))
        late = asyncio.create_task(api.post(f"{PODS}/a/binding", binding))
        await api.server.until(
            lambda: api.server.state().faults == {}, failure=lambda: "the call never came"
        )
        first = await api.post(
            f"{PODS}/a/binding", {**binding, "target": {"kind": "Node", "name": "first"}}
        )

        assert first.status == 201
        assert (await late).status == 409
        assert api.server.get("pods", "a")["spec"]["nodeName"] == "first"


async def test_a_server_that_ends_drops_its_late_calls() -> None:
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.APPLY_LATE, seconds=3600))
        leaving = asyncio.create_task(api.post(NODES, node("n")))
        await api.server.until(
            lambda: bool(api.server.calls()), failure=lambda: "the call never came"
        )
        leaving.cancel()
        await asyncio.wait([leaving])

    names = [task.get_name() for task in asyncio.all_tasks()]
    assert "a call carried out late" not in names


# ----------------------------------------------------------------------------- watches


async def test_events_can_be_dropped_by_kind_and_name() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.inject(
            Fault(kind=FaultKind.DROP_EVENTS, resource="pods", name="a", events=("DELETED",))
        )
        for name in ("a", "b"):
            await api.server.create("pods", pod(name))
            await api.server.delete("pods", name)

        assert await stream.told(3) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]


async def test_a_dropped_event_is_not_sent_later() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.inject(Fault(kind=FaultKind.DROP_EVENTS, count=1))
        await api.server.create("pods", pod("a"))
        await api.server.create("pods", pod("b"))

        assert await stream.told(1) == [("ADDED", "b")]
        assert await stream.is_silent()


async def test_bookmarks_can_be_dropped() -> None:
    query = {"allowWatchBookmarks": "1"}
    async with running(ApiServerSettings(bookmark_seconds=0.01)) as api:
        await api.server.inject(Fault(kind=FaultKind.DROP_EVENTS, events=("BOOKMARK",)))
        async with api.watch(PODS, resourceVersion=now(api), **query) as stream:
            assert await stream.is_silent()


async def test_events_can_be_late() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.inject(Fault(kind=FaultKind.LATE_EVENTS, resource="pods", seconds=0.3))
        await api.server.create("pods", pod("a"))
        early = await stream.is_silent()

        assert early
        assert await stream.told(1) == [("ADDED", "a")]


async def test_a_new_watch_can_be_half_open() -> None:
    settings = ApiServerSettings(watch_seconds=0.02, bookmark_seconds=0.01)
    async with running(settings) as api:
        await api.server.create("pods", pod("a"))
        await api.server.inject(Fault(kind=FaultKind.SILENT_WATCH, count=1))
        async with api.watch(PODS, allowWatchBookmarks="1") as stream:
            await api.server.create("pods", pod("b"))
            silent = await stream.is_silent()
            (watch,) = api.server.state().watches
            async with api.watch(PODS) as other:
                told = await other.told(2)

        assert stream.response.status == 200
        assert silent
        assert watch.silent
        assert told == [("ADDED", "a"), ("ADDED", "b")]


async def test_open_watches_can_be_made_half_open_by_resource() -> None:
    async with (
        running() as api,
        api.watch(PODS, resourceVersion=now(api)) as pods,
        api.watch(NODES, resourceVersion=now(api)) as nodes,
    ):
        await api.server.watched("nodes")
        count = await api.server.silence_watches("pods")
        await api.server.create("pods", pod("a"))
        await api.server.create("nodes", node("n"))

        assert count == 1
        assert await nodes.told(1) == [("ADDED", "n")]
        assert await pods.is_silent()


async def test_open_watches_can_be_cut() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.watched("pods")
        count = await api.server.cut_watches()
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.next()

        assert count == 1


async def test_open_watches_can_be_ended_cleanly() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.watched("pods")
        await api.server.cut_watches("pods", cleanly=True)

        assert await stream.next() is None
