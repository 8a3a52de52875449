"""The extender over real HTTP: whatever is sent is answered, and the process lives."""

import asyncio
import json
from typing import Any

import pytest

from gpushare_plugin import __version__
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.extender.filtering import Filtered, Filtering
from gpushare_plugin.extender.names import NameList
from tests.extender.http_sites import PREFIX, ask, make_site, node, pod_json, post, serving
from tests.node.event_log import EventLog


def named(*names: str, units: int = 4) -> dict[str, Any]:
    return {"Pod": pod_json(units=units), "Nodes": None, "NodeNames": list(names)}


BIND = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"}

# ----------------------------------------------------------------------------- verbs


async def test_b67_filter_tells_of_each_node_that_was_asked_about_and_of_no_other(
    log: EventLog,
) -> None:
    """c has room too, and ghost was deleted meanwhile."""
    async with serving(make_site(), log) as site:
        site.put(node("a"), node("b", units=6), node("c"))
        answer = await post(site, "filter", named("a", "b", "ghost"))

    assert answer.status == 200
    assert answer.json["NodeNames"] == ["a"]
    failed = answer.json["FailedNodes"] | answer.json["FailedAndUnresolvableNodes"]
    assert set(failed) == {"b", "ghost"}
    assert answer.json["Error"] == ""


async def test_the_other_verbs_answer_too(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"))
        site.know(pod_json())
        ranks = await post(site, "prioritize", named("a"))
        bound = await post(site, "bind", BIND)
        victims = await post(
            site, "preempt", {"Pod": pod_json("q"), "NodeNameToMetaVictims": {"ghost": None}}
        )
        used = await ask(f"{site.url}{PREFIX}/inspect")

    assert ranks.json == [{"Host": "a", "Score": 10}]
    assert bound.json == {"Error": ""}
    [binding] = site.api.bound
    assert (binding.name, binding.node_name, binding.uid) == ("p", "a", "uid-p")
    assert victims.json == {"NodeNameToMetaVictims": {}}
    assert [device["usedGPU"] for device in used.json["nodes"][0]["devs"]] == [4, 0]


async def test_a_bind_that_fails_is_a_200_whose_error_the_user_reads(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"))
        answer = await post(site, "bind", BIND)

    assert answer.status == 200
    assert "default/p" in answer.json["Error"]


# ------------------------------------------------------------------------------ junk


@pytest.mark.parametrize("sent", [b"", b"null", b"[1", b"\xff", b"{}", b"7", b"[" * 100_000])
async def test_b65_junk_is_answered_and_the_next_call_is_too(log: EventLog, sent: bytes) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"))
        for verb in ("filter", "bind"):
            answer = await post(site, verb, sent)
            assert answer.status == 200
            assert answer.json["Error"].startswith(f"{verb}: ")
        for verb in ("prioritize", "preempt"):
            answer = await post(site, verb, sent)
            assert answer.status == 400
            assert answer.text.startswith(f"{verb}: ")

        assert (await post(site, "filter", named("a"))).json["NodeNames"] == ["a"]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ],
)
async def test_what_is_no_http_harms_nobody(log: EventLog, sent: bytes) -> None:
    async with serving(make_site(), log) as site:
        host, port = site.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        answer = await reader.read()
        writer.close()

        assert b"400" in answer.splitlines()[0]
        assert (await ask(f"{site.url}/healthz")).status == 200


async def test_a_body_over_the_bound_is_refused_with_the_cure(log: EventLog) -> None:
    async with serving(make_site(), log, body_limit_bytes=1 << 20) as site:
        answer = await post(site, "filter", b"x" * ((1 << 20) + 1))
        fits = await post(site, "filter", b"x" * (1 << 20))

    assert answer.status == 413
    assert "the limit is 1 MiB; set nodeCacheCapable, or raise --body-limit-mib" in answer.text
    assert answer.headers["Connection"] == "close"
    assert fits.status == 200


async def test_a_body_that_does_not_say_how_long_it_is_has_the_same_bound(log: EventLog) -> None:
    async with serving(make_site(), log, body_limit_bytes=1000) as site:
        host, port = site.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /gpushare-scheduler/filter HTTP/1.1\r\nHost: x\r\n")
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n" + b"100\r\n" + b"x" * 256 + b"\r\n")
        for _ in range(3):
            writer.write(b"100\r\n" + b"x" * 256 + b"\r\n")
        status = await reader.readline()
        writer.close()

    assert b" 413 " in status


async def test_a_small_packed_body_is_not_unpacked_into_a_large_one(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        host, port = site.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /gpushare-scheduler/filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        )
        writer.write(b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
        answer = (await reader.read()).decode()
        writer.close()

    assert answer.startswith("HTTP/1.1 200")
    assert "malformed" in answer


async def test_a_body_that_does_not_come_is_not_waited_for(log: EventLog) -> None:
    async with serving(make_site(), log, body_seconds=0.05) as site:
        host, port = site.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /gpushare-scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        )
        status = await reader.readline()
        writer.close()

    assert b" 408 " in status


async def test_a_client_that_waits_for_leave_to_send_gets_it(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"))
        sent = json.dumps(named("a")).encode()
        host, port = site.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {PREFIX}/filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(sent)}\r\n"
        writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
        leave = await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        status = await reader.readline()
        writer.close()

    assert (leave, status) == (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n")


# ---------------------------------------------------------------------------- faults


class FailingFiltering(Filtering):
    """Fails as no error of ours does, for pods of one name."""

    def filter(self, pod: Pod, names: NameList) -> Filtered:
        if pod.name == "bad":
            raise KeyError("a fault of ours")
        return super().filter(pod, names)


async def test_an_unforeseen_error_is_told_with_its_traceback_and_the_process_lives(
    log: EventLog,
) -> None:
    async with serving(make_site(FailingFiltering), log) as site:
        site.put(node("a"))
        failed = await post(site, "filter", {"Pod": pod_json("bad"), "NodeNames": ["a"]})
        well = await post(site, "filter", named("a"))

    assert failed.status == 200
    assert failed.json["Error"] == "filter: internal error (KeyError); see the extender's log"
    [line] = log.of("call_failed", verb="filter")
    assert "a fault of ours" in line["error"]
    assert "Traceback" in line["traceback"]
    assert well.json["NodeNames"] == ["a"]


async def test_who_may_not_answer_now_says_why(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"))
        site.gate.says = "the API server has told nothing of pods for 200 s"
        answers = {
            verb: await post(site, verb, named("a"))
            for verb in ("filter", "bind", "prioritize", "preempt")
        }

    for verb in ("filter", "bind"):
        assert answers[verb].status == 200
        assert answers[verb].json["Error"] == site.gate.says
    for verb in ("prioritize", "preempt"):
        assert answers[verb].status == 503
        assert answers[verb].text == f"{site.gate.says}\n"


async def test_a_follower_answers_503_and_closes_the_connection(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.gate.leads = False
        for verb in ("filter", "prioritize", "bind", "preempt"):
            answer = await post(site, verb, named("a"))
            assert answer.status == 503
            assert answer.headers["Connection"] == "close"
        assert (await ask(f"{site.url}/readyz")).status == 200


# ----------------------------------------------------------------------------- pages


async def test_pages_are_there(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        pages = {path: await ask(site.url + path) for path in ("/version", "/healthz", "/metrics")}

    assert [page.status for page in pages.values()] == [200, 200, 200]
    assert pages["/version"].text == __version__
    assert pages["/healthz"].text == "ok\n"
    assert pages["/metrics"].headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_it_is_ready_once_the_cluster_is_known(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.not_ready.append("pods: not listed yet")
        before = await ask(f"{site.url}/readyz")
        site.not_ready.clear()
        after = await ask(f"{site.url}/readyz")

    assert (before.status, before.text) == (503, "pods: not listed yet\n")
    assert (after.status, after.text) == (200, "ok\n")


@pytest.mark.parametrize("path", ["/inspect", "/inspect/"])
async def test_inspect_shows_every_node(log: EventLog, path: str) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"), node("cpu", units=0, count=0))
        answer = await ask(f"{site.url}{PREFIX}{path}")

    devices: list[dict[str, Any]] = [
        {"id": each, "totalGPU": 23, "usedGPU": 0, "pods": []} for each in (0, 1)
    ]
    assert answer.json == {
        "nodes": [
            {"name": "a", "totalGPU": 46, "usedGPU": 0, "devs": devices},
            {"name": "cpu", "totalGPU": 0, "usedGPU": 0, "devs": []},
        ]
    }


async def test_inspect_of_one_node_and_of_one_that_is_not_known(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"), node("b"))
        one = await ask(f"{site.url}{PREFIX}/inspect/b")
        slash = await ask(f"{site.url}{PREFIX}/inspect/b/")
        none = await ask(f"{site.url}{PREFIX}/inspect/ghost")

    assert [each["name"] for each in one.json["nodes"]] == ["b"]
    assert slash.json == one.json
    assert none.status == 404
    assert none.json["nodes"] == []
    assert "no such node" in none.json["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{PREFIX}/filter", 405),
        ("PUT", f"{PREFIX}/bind", 405),
        ("POST", "/healthz", 404),
        ("GET", "/", 404),
        ("POST", f"{PREFIX}/evict", 404),
        ("GET", f"{PREFIX}/inspect/a/b", 404),
        ("GET", f"{PREFIX}/inspected", 404),
    ],
)
async def test_what_is_not_there_is_told(
    log: EventLog, method: str, path: str, status: int
) -> None:
    async with serving(make_site(), log) as site:
        assert (await ask(site.url + path, method)).status == status


async def test_calls_are_counted_by_verb_and_result(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.put(node("a"))
        await post(site, "filter", named("a"))
        await post(site, "filter", b"junk")
        await post(site, "bind", BIND)
        text = (await ask(f"{site.url}/metrics")).text

    assert 'gpushare_extender_answers_total{result="ok",verb="filter"} 1.0' in text
    assert 'gpushare_extender_answers_total{result="error",verb="filter"} 1.0' in text
    assert 'gpushare_extender_answers_total{result="error",verb="bind"} 1.0' in text
    assert 'gpushare_extender_call_seconds_count{verb="filter"} 2.0' in text


async def test_a_page_that_fails_is_told_and_the_process_lives(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        site.not_ready = None  # type: ignore[assignment]  # the page fails on it
        failed = await ask(f"{site.url}/readyz")

        assert failed.status == 500
        assert (await ask(f"{site.url}/healthz")).status == 200
    assert "Traceback" in log.of("page_failed", path="/readyz")[0]["traceback"]
