"""What is said when a call does not go well: the call, what was found, what to do."""

import asyncio
from contextlib import aclosing

import pytest

from gpushare_plugin.errors import (
    ApiConflict,
    ApiError,
    ApiExpired,
    ApiNotFound,
    ApiRefused,
    ApiThrottled,
    ApiUnavailable,
)
from gpushare_plugin.sim.apiserver import Access, Fault, FaultKind, Rule, SimApiServer, User
from tests.adapters.kube_servers import Hanging, answer, client_of, scripted, stream


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, ApiError, "does not take such a request (400 because)"),
        (404, ApiNotFound, "not found (404 because)"),
        (409, ApiConflict, "read it again"),
        (422, ApiConflict, "read it again"),
        (410, ApiExpired, "list again"),
        (429, ApiUnavailable, "cannot now (429 because)"),
        (500, ApiUnavailable, "cannot now (500 because); try again later"),
        (503, ApiUnavailable, "cannot now (503 because)"),
        (504, ApiUnavailable, "cannot now (504 because)"),
    ],
)
async def test_b71_each_answer_is_told_with_verb_object_and_reason(
    status: int, kind: type[ApiError], told: str
) -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.inject(Fault(kind=FaultKind.STATUS, status=status, message="because"))

        with pytest.raises(kind) as caught:
            await client.get_pod("team", "a")

    assert type(caught.value) is kind
    assert str(caught.value).startswith("get pods team/a: ")
    assert told in str(caught.value)


async def test_b71_a_missing_right_is_told_with_what_to_grant() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.set_access(Access())

        with pytest.raises(ApiRefused) as caught:
            await client.list_pods(field_selector="spec.nodeName=n")

    assert str(caught.value).startswith("list pods spec.nodeName=n: forbidden (403 pods is ")
    assert str(caught.value).endswith("the role must grant list on pods")


async def test_what_is_granted_is_what_is_used() -> None:
    granted = Rule(verbs=("list", "watch"), resources=("pods",))
    anyone = "system:anonymous"
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.set_access(Access(tokens={"t": User(name="us")}, rules={anyone: (granted,)}))
        listed = await client.list_pods()
        async with aclosing(client.watch_pods(version=listed.version)) as events:
            await anext(events)

        uses = [(use.verb, use.resource) for use in server.state().uses[anyone]]
        assert uses == [("list", "pods"), ("watch", "pods")]


async def test_how_long_to_wait_is_on_the_error() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.inject(Fault(kind=FaultKind.STATUS, status=429, retry_after_seconds=7))

        with pytest.raises(ApiThrottled, match="asks for 7 s of rest") as caught:
            await client.get_node("n")

    assert caught.value.retry_after_seconds == 7


async def test_a_version_from_before_a_restore_is_forgotten_not_waited_for() -> None:
    body = b'{"code":504,"message":"Timeout: Too large resource version: 900, current: 20"}'
    async with (
        scripted(answer(body, status="504 Gateway Timeout")) as api,
        client_of(api.address) as client,
    ):
        with pytest.raises(ApiExpired):
            await anext(client.watch_pods(version="900"))


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        pytest.param(
            answer(b"<html><b>no\nentry</b>", status="502 Bad Gateway"),
            ApiUnavailable,
            "cannot now (502 <html><b>no entry</b>)",
            id="a-proxys-page",
        ),
        pytest.param(
            answer(b"", status="503 Oops"),
            ApiUnavailable,
            "cannot now (503 Service Unavailable)",
            id="no-words",
        ),
        pytest.param(
            answer(b"", status="302 Found", headers="Location: http://127.0.0.1:1/\r\n"),
            ApiError,
            "does not take such a request (302 Found)",
            id="redirect",
        ),
        pytest.param(answer(b"{}", status="799 What"), ApiUnavailable, "799", id="unheard-of"),
        pytest.param(b"", ApiUnavailable, "broke: Server disconnected", id="hangs-up"),
        pytest.param(b"SSH-2.0\r\n\r\n", ApiUnavailable, "broke: ", id="not-http"),
        pytest.param(answer(b"{}" * 50)[:-9], ApiUnavailable, "broke: ", id="cut-short"),
        pytest.param(answer(b"[]"), ApiUnavailable, "garbled", id="not-an-object"),
    ],
)
async def test_nothing_foreign_leaks(reply: bytes, kind: type[ApiError], told: str) -> None:
    # Twice: a read is sent again, once, when the server hangs up without an answer.
    async with scripted(reply, reply) as api, client_of(api.address) as client:
        with pytest.raises(kind) as caught:
            await client.get_node("n")

    assert type(caught.value) is kind
    assert str(caught.value).startswith("get nodes n: ")
    assert told in str(caught.value)


async def test_a_server_that_is_away_is_told_so() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.go_away()

        with pytest.raises(ApiUnavailable, match="does the API server run there"):
            await client.get_node("n")


async def test_how_long_to_wait_may_be_in_the_header_alone() -> None:
    reply = answer(b"slow down", status="429 Too Many Requests", headers="Retry-After: 3\r\n")
    async with scripted(reply) as api, client_of(api.address) as client:
        with pytest.raises(ApiThrottled, match="429 slow down") as caught:
            await client.get_node("n")

    assert caught.value.retry_after_seconds == 3


async def test_b86_a_watch_that_breaks_off_within_an_event_is_an_error() -> None:
    async with scripted(stream(b'{"type":"ADDED"')) as api, client_of(api.address) as client:
        with pytest.raises(ApiUnavailable, match=r"broke off within an event, 15 bytes into it"):
            [event async for event in client.watch_pods(version="1")]


async def test_an_address_that_is_none_is_told_so() -> None:
    async with client_of("http://127.0.0.1:port") as client:
        with pytest.raises(ApiUnavailable, match="is no URL of a server"):
            await client.get_node("n")


async def test_a_watch_is_refused_in_the_same_words() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.inject(Fault(kind=FaultKind.STATUS, status=500))

        with pytest.raises(ApiUnavailable, match=r"^watch pods: the API server cannot now"):
            await anext(client.watch_pods(version="1"))


async def test_b87_a_watch_that_says_nothing_is_an_error() -> None:
    async with (
        scripted(Hanging(stream(b""))) as api,
        client_of(api.address, silence_seconds=0.05) as client,
        aclosing(client.watch_pods(version="1")) as events,
    ):
        await anext(events)

        with pytest.raises(ApiUnavailable, match=r"nothing came .* for 0.05 s; .*half-open"):
            await anext(events)


async def test_whoever_asked_can_give_up_at_any_moment() -> None:
    async with scripted(Hanging()) as api, client_of(api.address) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.get_node("n")
