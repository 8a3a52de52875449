"""Preemption: who has to go, what the extender is asked, and what it may answer."""

from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.scheduler import Outcome, Result
from tests.sim.scheduler_peers import MEMORY, Json, World, node, none_fit, pod, world

PREEMPTS = {"preemptVerb": "preempt"}
NO_HELP = f"0/1 nodes are available: 1 Insufficient {MEMORY}. "
PREFIX = "no new claims to deallocate, preemption: "


def there(name: str, units: int, *, priority: int = 0, node_name: str = "a", **spec: Any) -> Json:
    return pod(name, units=units, priority=priority, nodeName=node_name, **spec)


async def preempting(made: World, units: int, *others: Json, **spec: Any) -> Outcome:
    """The first attempt at a pod of priority 100 where the others are."""
    for other in others:
        await made.server.create("pods", other)
    await made.server.create("pods", pod("p", units=units, **({"priority": 100} | spec)))
    return await made.scheduler.attempted("default/p")


async def test_victims_go_and_the_pod_gets_their_room(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        outcome = await preempting(
            made, 8, there("old", 6), there("new", 6), there("high", 2, priority=200)
        )
        await made.server.gone("pods", "new")
        bound = await made.bound("p")
        await made.scheduler.idle(known=("default/p",))
        left = [each["metadata"]["name"] for each in made.server.objects("pods")]
        preempted = made.notes("new", "Preempted")
        uid = made.server.get("pods", "p")["metadata"]["uid"]

    assert outcome.result is Result.UNSCHEDULABLE
    assert (outcome.nominated_node, outcome.victims) == ("a", ("default/new",))
    assert outcome.message == NO_HELP.strip()
    assert (bound, left) == ("a", ["high", "old", "p"])
    assert preempted == [f"Preempted by pod {uid} on node a"]


async def test_a_victim_is_marked_before_it_is_deleted_with_its_grace(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        await preempting(made, 16, there("low", 4))
        await made.bound("p")
        calls = [
            (call.verb, call.resource, call.json)
            for call in made.server.calls()
            if call.name == "low"
        ]

    (_, resource, body), deletion = calls
    (mark,) = body["status"]["conditions"]
    assert (resource, deletion[:2]) == ("pods/status", ("delete", "pods"))
    assert (mark["type"], mark["status"]) == ("DisruptionTarget", "True")
    assert mark["reason"] == "PreemptionByScheduler"
    assert "gracePeriodSeconds" not in deletion[2]


async def test_while_victims_end_the_promise_stands_and_nobody_else_has_to_go(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        slow = there("slow", 8, terminationGracePeriodSeconds=100000)
        await preempting(made, 16, slow, there("low", 4))
        await made.server.until_object(
            "pods", "p", lambda found: found["status"].get("nominatedNodeName") == "a"
        )
        await made.server.gone("pods", "low")
        outcome = await made.scheduler.attempted("default/p", attempt=2)
        # The promised room is not for one of a lower priority.
        await made.server.create("pods", pod("q", units=2, priority=50))
        other = await made.scheduler.attempted("default/q")
        state = made.scheduler.state()
        await made.server.finish_termination("slow")
        bound = await made.bound("p")

    reason = "not eligible due to a terminating pod on the nominated node."
    assert outcome.message == f"{NO_HELP}{PREFIX}{reason}"
    assert other.result is Result.UNSCHEDULABLE
    assert state.nominated == {"default/p": "a"}
    assert bound == "a"


async def test_a_node_cache_is_given_victims_by_uid(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        await preempting(made, 16, there("low", 4), there("lower", 4, priority=-1))
        (call,) = made.extender.of("preempt")
        uids = [made.server.get("pods", name)["metadata"]["uid"] for name in ("low", "lower")]

    assert list(call.json) == ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]
    assert call.json["NodeNameToVictims"] is None
    assert call.json["NodeNameToMetaVictims"] == {
        "a": {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
    }


async def test_without_a_node_cache_victims_are_whole_pods(tmp_path: Path) -> None:
    fields = PREEMPTS | {"nodeCacheCapable": False}
    async with world(tmp_path, node("a"), extender=fields) as made:
        low = await made.server.create("pods", there("low", 4))
        uid = low["metadata"]["uid"]
        named = {"a": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}
        made.extender.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": named}
        outcome = await preempting(made, 16)
        (call,) = made.extender.of("preempt")

    assert call.json["NodeNameToMetaVictims"] is None
    (victim,) = call.json["NodeNameToVictims"]["a"]["Pods"]
    assert victim["metadata"]["uid"] == uid
    assert victim["spec"]["containers"] == low["spec"]["containers"]
    assert outcome.victims == ("default/low",)


async def test_the_extender_may_choose_other_victims(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        other = await made.server.create("pods", there("other", 4, priority=7))

        def choose(_: Json) -> Any:
            pods = [{"UID": other["metadata"]["uid"]}]
            return {"nodeNameToMetaVictims": {"a": {"pods": pods}}}

        made.extender.answers["preempt"] = choose
        outcome = await preempting(made, 12, there("low", 4))

    assert outcome.victims == ("default/other",)


async def test_the_node_where_least_is_lost_is_taken(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), node("b"), node("c"), extender=PREEMPTS) as made:
        outcome = await preempting(
            made,
            16,
            there("a1", 4, priority=5),
            there("b1", 4, priority=3, node_name="b"),
            there("b2", 4, priority=1, node_name="b"),
            there("c1", 4, priority=3, node_name="c"),
        )

    assert (outcome.nominated_node, outcome.victims) == ("c", ("default/c1",))


async def test_the_promised_node_is_tried_first_and_alone(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), node("b"), extender=PREEMPTS) as made:
        stays = there("stays", 4, terminationGracePeriodSeconds=100000)
        other = there("other", 4, priority=5, node_name="b")
        outcome = await preempting(made, 16, stays, other)
        await made.scheduler.pause()
        for name in ("other", "stays"):
            await made.server.delete("pods", name)
        await made.scheduler.until(lambda: made.scheduler.state().pods == 1, failure=str)
        await made.scheduler.resume()
        bound = await made.bound("p")
        (call,) = made.extender.of("filter")

    assert (outcome.nominated_node, bound) == ("a", "a")
    assert call.json["NodeNames"] == ["a"]


STRANGER = (
    "extender: {url} claims to preempt pod (UID: &{{who}}) on node: a, "
    "but the pod is not found on that node"
)
UNKNOWN = {"a": {"Pods": [{"UID": "who"}]}}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"NodeNameToMetaVictims": {}}, f"{PREFIX}no candidate node for preemption"),
        (
            {"NodeNameToMetaVictims": {"a": {"Pods": []}}},
            'preemption: expected at least one victim pod on node "a"',
        ),
        (
            {"NodeNameToMetaVictims": UNKNOWN},
            f"preemption: {STRANGER}",
        ),
        (
            {"NodeNameToMetaVictims": {"z": {"Pods": []}}},
            'preemption: nodeinfo not found for node name "z"',
        ),
        (500, "preemption: failed preempt with extender at URL {url}/preempt, code 500"),
    ],
)
async def test_an_answer_that_does_not_help_kills_nobody(
    tmp_path: Path,
    answer: Any,
    told: str,
) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        made.extender.answers["preempt"] = lambda _: answer
        outcome = await preempting(made, 16, there("low", 4))
        text = told.format(url=made.extender.address)
        deleted = [call for call in made.server.calls() if call.verb == "delete"]

    assert outcome.message == NO_HELP + text
    assert (outcome.victims, deleted) == ((), [])


async def test_an_ignorable_extender_that_breaks_leaves_the_victims_as_they_are(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS | {"ignorable": True}) as made:
        made.extender.answers["preempt"] = lambda _: 500
        outcome = await preempting(made, 16, there("low", 4))

    assert outcome.victims == ("default/low",)


async def test_an_extender_without_the_verb_is_not_asked(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        outcome = await preempting(made, 16, there("low", 4))

    assert outcome.victims == ("default/low",)
    assert made.extender.of("preempt") == []


@pytest.mark.parametrize(
    ("other", "spec", "told"),
    [
        (
            there("equal", 4, priority=100),
            {},
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            there("low", 4),
            {"preemptionPolicy": "Never"},
            "not eligible due to preemptionPolicy=Never.",
        ),
    ],
)
async def test_who_may_not_preempt_is_told_why(
    tmp_path: Path,
    other: Json,
    spec: Json,
    told: str,
) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        outcome = await preempting(made, 16, other, **spec)

    assert outcome.message == f"{NO_HELP}{PREFIX}{told}"


# ------------------------------------------- nodes that are good enough for the own filters


async def test_a_node_that_only_the_extender_refused_has_no_victims(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS) as made:
        made.extender.answers["filter"] = none_fit("no card has room")
        outcome = await preempting(made, 8, there("one", 4), there("two", 4))

    assert outcome.message == (
        "0/1 nodes are available: 1 no card has room. "
        'preemption: expected at least one victim pod on node "a"'
    )
    assert made.extender.of("preempt") == []


async def test_later_schedulers_let_the_extender_find_victims_there(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS, preempt_without_victims=True) as made:
        made.extender.answers["filter"] = none_fit("no card has room")
        one = await made.server.create("pods", there("one", 4))
        pods = [{"UID": one["metadata"]["uid"]}]
        found = {"NodeNameToMetaVictims": {"a": {"Pods": pods}}}
        made.extender.answers["preempt"] = lambda _: found
        outcome = await preempting(made, 8, there("two", 4))
        (call,) = made.extender.of("preempt")

    assert call.json["NodeNameToMetaVictims"] == {"a": {"Pods": [], "NumPDBViolations": 0}}
    assert outcome.victims == ("default/one",)


async def test_later_schedulers_drop_a_node_without_victims(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender=PREEMPTS, preempt_without_victims=True) as made:
        made.extender.answers["filter"] = none_fit("no card has room")
        outcome = await preempting(made, 8, there("one", 4))

    assert outcome.message.endswith("preemption: no candidate node for preemption")
