"""How an extender is called: which pods, which shapes, and what its answers do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.scheduler import Result
from tests.sim.scheduler_peers import MEMORY, Json, all_fit, node, none_fit, pod, world


async def test_a_node_cache_is_asked_by_names_alone(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), node("b")) as made:
        created = await made.server.create("pods", pod("p", units=4))
        await made.bound("p")
        (call,) = made.extender.of("filter")

    assert call.path == "/scheduler/filter"
    assert call.headers["Content-Type"] == "application/json"
    assert list(call.json) == ["Pod", "Nodes", "NodeNames"]
    assert (call.json["Nodes"], call.json["NodeNames"]) == (None, ["a", "b"])
    assert call.json["Pod"]["metadata"]["uid"] == created["metadata"]["uid"]
    assert call.json["Pod"]["spec"]["containers"] == created["spec"]["containers"]
    assert not {"kind", "apiVersion"} & call.json["Pod"].keys()
    assert "managedFields" not in call.json["Pod"]["metadata"]


async def test_without_a_node_cache_whole_nodes_are_sent(tmp_path: Path) -> None:
    fields = {"nodeCacheCapable": False, "prioritizeVerb": "prioritize", "weight": 2}
    async with world(tmp_path, node("a"), node("b"), extender=fields) as made:
        await made.server.create("pods", pod("p", units=4))
        await made.bound("p")
        (asked,), (scored,) = made.extender.of("filter"), made.extender.of("prioritize")

    for call in (asked, scored):
        assert call.json["NodeNames"] is None
        assert call.json["Nodes"]["metadata"] == {}
        items = call.json["Nodes"]["items"]
        assert [item["metadata"]["name"] for item in items] == ["a", "b"]
        assert items[0]["status"]["allocatable"][MEMORY] == "16"
        assert "kind" not in items[0]


async def test_the_binding_names_pod_and_node(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        created = await made.server.create("pods", pod("p", units=4))
        await made.bound("p")
        state = await made.scheduler.idle(known=("default/p",))
        (call,) = made.extender.of("bind")
        notes = made.notes("p", "Scheduled")
        posted = [each for each in made.server.calls() if each.resource == "pods/binding"]

    assert call.json == {
        "PodName": "p",
        "PodNamespace": "default",
        "PodUID": created["metadata"]["uid"],
        "Node": "a",
    }
    assert notes == ["Successfully assigned default/p to a"]
    assert posted == []
    assert state.outcomes["default/p"].result is Result.BOUND
    assert state.assumed == {}


def _init_asks(name: str) -> Json:
    value = pod(name)
    asked = {"limits": {MEMORY: "4"}}
    init = {"name": "init", "image": "app:1", "resources": asked}
    value["spec"]["initContainers"] = [init]
    return value


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (pod("p", units=4), True),
        (_init_asks("p"), True),
        (pod("p", cpu="1"), False),
    ],
)
async def test_only_pods_that_name_a_managed_resource_are_asked_about(
    tmp_path: Path,
    value: Json,
    asked: bool,
) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.server.create("pods", value)
        await made.bound("p")
        verbs = [call.verb for call in made.extender.calls]
        posted = [each.json for each in made.server.calls() if each.resource == "pods/binding"]

    assert verbs == (["filter", "bind"] if asked else [])
    assert [each["target"] for each in posted] == ([] if asked else [{"kind": "Node", "name": "a"}])


async def test_an_extender_without_managed_resources_is_asked_about_every_pod(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a"), extender={"managedResources": []}) as made:
        await made.server.create("pods", pod("p"))
        await made.bound("p")

        assert [call.verb for call in made.extender.calls] == ["filter", "bind"]


async def test_the_extender_takes_nodes_out_and_its_reasons_are_in_the_event(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a"), node("b"), node("c", units=1)) as made:
        made.extender.answers["filter"] = lambda _: {
            "NodeNames": [],
            "FailedNodes": {"a": "no card has room"},
            "FailedAndUnresolvableNodes": {"a": "not this word", "b": "not shared"},
        }
        await made.server.create("pods", pod("p", units=4))
        await made.scheduler.idle(known=("default/p",))
        first, *_ = made.notes("p")
        found = made.server.get("pods", "p")["status"]["conditions"]

    assert first == (
        f"0/3 nodes are available: 1 Insufficient {MEMORY}, 1 not shared, 1 not this word. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )
    assert [(c["type"], c["status"], c["reason"], c["message"]) for c in found] == [
        ("PodScheduled", "False", "Unschedulable", first)
    ]


async def test_keys_of_answers_may_have_any_case(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), node("b")) as made:
        made.extender.answers["filter"] = lambda _: {"nodenames": ["b"], "nodes": None}
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "b"


async def test_a_node_cache_may_answer_with_nodes(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), node("b")) as made:
        items = [{"metadata": {"name": "b"}}]
        made.extender.answers["filter"] = lambda _: {"Nodes": {"items": items}}
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "b"


BROKEN: list[tuple[Any, str]] = [
    ({"NodeNames": ["a", "z"]}, 'claims a filtered node "z" which is not found in the input node'),
    ({"NodeNames": ["a"], "Error": "cache is stale"}, "cache is stale"),
    (500, "failed filter with extender at URL {url}/filter, code 500"),
    (204, "failed filter with extender at URL {url}/filter, code 204"),
    (b"", "EOF"),
    (b"{oops", "invalid JSON in the answer"),
    ({"NodeNames": "a"}, "json: cannot unmarshal str into Go NodeNames of type list"),
    (ConnectionResetError(), 'Post "{url}/filter": EOF'),
]


@pytest.mark.parametrize(("answer", "told"), BROKEN)
async def test_a_filter_that_breaks_is_an_error_of_the_pod(
    tmp_path: Path,
    answer: Any,
    told: str,
) -> None:
    async with world(tmp_path, node("a"), backoff_scale=100.0) as made:
        made.extender.answers["filter"] = lambda _: answer
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")
        state = made.scheduler.state()
        (call,) = made.scheduler.calls()
        text = told.format(url=made.extender.address)

    assert outcome.result is Result.ERROR
    assert text in outcome.message
    assert (call.verb, call.error) == ("filter", outcome.message)
    assert [(q.pod, q.rejectors) for q in state.backing_off] == [("default/p", ())]


@pytest.mark.parametrize(("answer", "told"), BROKEN)
async def test_an_ignorable_extender_that_breaks_is_passed_over(
    tmp_path: Path,
    answer: Any,
    told: str,
) -> None:
    async with world(tmp_path, node("a"), extender={"ignorable": True}) as made:
        made.extender.answers["filter"] = lambda _: answer
        made.extender.answers["bind"] = lambda _: 500
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "a"
        assert [call.verb for call in made.extender.calls] == ["filter", "bind"]


async def test_an_extender_that_hangs_is_given_up_after_its_timeout(tmp_path: Path) -> None:
    fields = {"httpTimeout": "50ms"}
    async with world(tmp_path, node("a"), extender=fields, backoff_scale=100.0) as made:
        made.extender.gates["filter"] = asyncio.Event()
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")

    assert "context deadline exceeded (Client.Timeout exceeded" in outcome.message


async def test_an_extender_that_is_not_there_is_a_refused_connection(tmp_path: Path) -> None:
    fields = {"urlPrefix": "http://127.0.0.1:1/scheduler"}
    async with world(tmp_path, node("a"), extender=fields, backoff_scale=100.0) as made:
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")

    assert outcome.message == (
        'Post "http://127.0.0.1:1/scheduler/filter": '
        "dial tcp 127.0.0.1:1: connect: connection refused"
    )


async def test_the_extender_is_not_asked_where_no_node_is_left(tmp_path: Path) -> None:
    async with world(tmp_path, node("a", units=1)) as made:
        await made.server.create("pods", pod("p", units=4))
        await made.scheduler.idle(known=("default/p",))

        assert made.extender.calls == []


async def test_a_resource_left_to_the_extender_is_no_matter_of_the_own_fit(tmp_path: Path) -> None:
    fields = {"managedResources": [{"name": MEMORY, "ignoredByScheduler": True}]}
    async with world(tmp_path, node("a", units=1), extender=fields) as made:
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "a"


async def test_answers_of_filter_count_for_the_next_pod_too(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        made.extender.answers["filter"] = none_fit("full")
        await made.server.create("pods", pod("p", units=4))
        await made.scheduler.idle(known=("default/p",))
        made.extender.answers["filter"] = all_fit
        await made.server.create("pods", pod("q", units=4))

        assert await made.bound("q") == "a"
