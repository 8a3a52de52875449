"""Which node a pod gets: own filters, scores, ties, promises, and what the events say."""

from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.scheduler.objects import effective_requests, pod_info
from gpushare_plugin.sim.scheduler.quantities import thousandths
from tests.sim.scheduler_peers import MEMORY, Json, World, node, pod, world

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
PREFERS = {"effect": "PreferNoSchedule", "key": "dedicated"}


def labelled(value: Json, **labels: str) -> Json:
    return value | {"metadata": value["metadata"] | {"labels": labels}}


async def refusal(made: World, value: Json) -> str:
    name = value["metadata"]["name"]
    await made.server.create("pods", value)
    await made.scheduler.idle(known=(f"default/{name}",))
    return made.notes(name)[0]


@pytest.mark.parametrize(
    ("nodes", "spec", "reasons"),
    [
        ([node("a", units=3)], {"units": 4}, f"1 Insufficient {MEMORY}."),
        ([node("a", cpu="1500m")], {"cpu": "2"}, "1 Insufficient cpu."),
        (
            [node("a", cpu="1", units=1), node("b", cpu="1")],
            {"cpu": "2", "units": 4},
            f"1 Insufficient {MEMORY}, 2 Insufficient cpu.",
        ),
        ([node("a", taints=[TAINT])], {}, "1 node(s) had untolerated taint(s)."),
        ([node("a", unschedulable=True)], {}, "1 node(s) were unschedulable."),
        (
            [labelled(node("a"), zone="1")],
            {"nodeSelector": {"zone": "2"}},
            "1 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
async def test_a_node_that_does_not_fit_is_named_by_its_reason(
    tmp_path: Path,
    nodes: list[Json],
    spec: Any,
    reasons: str,
) -> None:
    async with world(tmp_path, *nodes) as made:
        note = await refusal(made, pod("p", **spec))

    count = len(nodes)
    assert note == (
        f"0/{count} nodes are available: {reasons} no new claims to deallocate, preemption: "
        f"0/{count} nodes are available: {count} Preemption is not helpful for scheduling."
    )


async def test_without_nodes_the_pod_waits_and_is_told_so(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await made.server.create("pods", pod("p"))
        outcome = await made.scheduler.attempted("default/p")
        await made.server.create("nodes", node("a"))

        assert outcome.message == "no nodes available to schedule pods"
        assert await made.bound("p") == "a"


async def test_a_long_message_is_cut_in_the_event_only(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        made.extender.answers["filter"] = lambda _: {
            "NodeNames": [],
            "FailedAndUnresolvableNodes": {"a": "x" * 2000},
        }
        note = await refusal(made, pod("p", units=4))
        (found,) = made.server.get("pods", "p")["status"]["conditions"]

    assert len(note) == 1024
    assert note.endswith("xxx ...")
    assert "x" * 2000 in found["message"]


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Exists"},
        {"operator": "Exists"},
    ],
)
async def test_a_taint_can_be_tolerated(tmp_path: Path, toleration: Json) -> None:
    async with world(tmp_path, node("a", taints=[TAINT])) as made:
        await made.server.create("pods", pod("p", tolerations=[toleration]))

        assert await made.bound("p") == "a"


async def test_a_taint_that_only_prefers_keeps_nobody_away(tmp_path: Path) -> None:
    async with world(tmp_path, node("a", taints=[PREFERS])) as made:
        await made.server.create("pods", pod("p"))

        assert await made.bound("p") == "a"


async def test_pods_of_another_scheduler_are_left_alone_but_count_where_they_are(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a", cpu="2")) as made:
        await made.server.create("pods", pod("other", cpu="1", schedulerName="other"))
        await made.server.create("pods", pod("held", cpu="2", schedulerName="x", nodeName="a"))
        note = await refusal(made, pod("p", cpu="1"))

        assert note.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert "default/other" not in made.scheduler.state().outcomes


async def test_a_pod_that_ended_holds_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, node("a", cpu="2")) as made:
        await made.server.create("pods", pod("done", cpu="2", nodeName="a"))
        await made.server.set_pod_phase("done", "Succeeded")
        await made.server.create("pods", pod("p", cpu="2"))

        assert await made.bound("p") == "a"


# ------------------------------------------------------------------------------- scores


@pytest.mark.parametrize(("strategy", "chosen"), [("LeastAllocated", "b"), ("MostAllocated", "a")])
async def test_the_own_score_follows_the_strategy(
    tmp_path: Path,
    strategy: str,
    chosen: str,
) -> None:
    arguments = {"scoringStrategy": {"type": strategy, "resources": [{"name": MEMORY}]}}
    config = {
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": arguments}]}],
    }
    async with world(tmp_path, node("a"), node("b"), config=config) as made:
        await made.server.create("pods", pod("there", units=4, nodeName="a"))
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")

    assert outcome.node == chosen
    assert outcome.scores == ({"a": 50, "b": 75} if chosen == "b" else {"a": 50, "b": 25})


async def test_scores_of_an_extender_count_ten_times_their_weight(tmp_path: Path) -> None:
    fields = {"prioritizeVerb": "prioritize", "weight": 3}
    async with world(tmp_path, node("a"), node("b"), extender=fields) as made:
        made.extender.answers["prioritize"] = lambda _: [
            {"Host": "a", "Score": 10},
            {"host": "b", "score": 9},
            {"Host": "nowhere", "Score": 10},
        ]
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")
        (call,) = made.extender.of("prioritize")

    assert outcome.node == "a"
    assert outcome.scores["a"] - outcome.scores["b"] == 30
    assert call.json["NodeNames"] == ["a", "b"]


async def test_one_node_that_is_left_is_taken_without_asking_for_scores(tmp_path: Path) -> None:
    fields = {"prioritizeVerb": "prioritize", "weight": 3}
    async with world(tmp_path, node("a"), node("b", units=1), extender=fields) as made:
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")

    assert (outcome.node, outcome.scores) == ("a", {})
    assert made.extender.of("prioritize") == []


async def test_scores_that_break_are_left_out(tmp_path: Path) -> None:
    fields = {"prioritizeVerb": "prioritize", "weight": 3}
    async with world(tmp_path, node("a"), node("b"), extender=fields) as made:
        made.extender.answers["prioritize"] = lambda _: 500
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") in {"a", "b"}


async def _ties(folder: Path, seed: int) -> list[str]:
    names = ("a", "b", "c")
    async with world(folder, *(node(name, cpu="1000") for name in names), seed=seed) as made:
        nodes = []
        for number in range(12):
            await made.server.create("pods", pod(f"p{number}", cpu="1m"))
            nodes.append((await made.scheduler.attempted(f"default/p{number}")).node)
        return nodes


async def test_ties_are_random_and_follow_from_the_seed(tmp_path: Path) -> None:
    first, again, other = [await _ties(tmp_path, seed) for seed in (1, 1, 2)]

    assert first == again != other
    assert set(first) == {"a", "b", "c"}


async def test_the_next_cycle_begins_after_the_last_node_of_this_one(tmp_path: Path) -> None:
    nodes = [node(f"n{number:03}") for number in range(150)]
    async with world(tmp_path, *nodes, config={"percentageOfNodesToScore": 1}) as made:
        for name in ("p", "q"):
            await made.server.create("pods", pod(name, units=1))
            await made.bound(name)
        first, second = (call.json["NodeNames"] for call in made.extender.of("filter"))

    names = [each["metadata"]["name"] for each in nodes]
    assert first == names[:100]
    assert second == names[100:] + names[:50]


# ------------------------------------------------------------------------------ amounts


def test_quantities_are_exact_thousandths() -> None:
    texts = ("2", "250m", "1.5", "1Ki", "2e3", "1u", 3)

    assert [thousandths(text) for text in texts] == [2000, 250, 1500, 1_024_000, 2_000_000, 1, 3000]
    with pytest.raises(ValueError, match="expected a number"):
        thousandths("lots")


def test_a_pod_asks_for_the_most_that_runs_at_one_time() -> None:
    def container(units: int, **more: str) -> Json:
        return {"resources": {"limits": {MEMORY: str(units)}}, **more}

    sidecar = container(2, restartPolicy="Always")
    spec = {
        "initContainers": [container(3), sidecar, container(6)],
        "containers": [container(3)],
        "overhead": {MEMORY: "1"},
    }

    assert effective_requests(spec) == {MEMORY: 9000}


def test_a_request_stands_before_its_limit() -> None:
    value = pod("p")
    value["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "2", "memory": "1"},
        "requests": {"cpu": "1"},
    }

    assert pod_info(value).requests == {"cpu": 1000, "memory": 1000}
