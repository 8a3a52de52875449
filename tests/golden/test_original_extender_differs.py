"""Where our extender differs from the original's on purpose: each test says why.

A vector here is what the original answered; the assertion is what we answer instead.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import Fault, FaultKind
from tests.extender.daemons import node_object, pod_object
from tests.extender.http_sites import MEMORY
from tests.golden.extender_vectors import (
    ORIGINAL,
    PREFIX,
    filtered,
    held,
    list_unhealthy,
    ours,
    vector,
)
from tests.node.event_log import EventLog

# ---------------------------------------------------------------------------- filter


async def test_golden_names_are_answered_with_names_alone(tmp_path: Path, log: EventLog) -> None:
    """The original answers names with whole nodes too: 40 MB for 5,000 of them."""
    original = vector("filter", "filter NodeNames")
    async with ours(tmp_path, log) as extender:
        answer = await filtered(extender, original)

    assert original["items"] == ["gpu-a"]
    assert answer["Nodes"] is None


async def test_golden_whole_nodes_are_answered_with_these_alone(
    tmp_path: Path, log: EventLog
) -> None:
    """As above, the other way round; and they are the scheduler's, not our copy of them."""
    original = vector("filter", "filter Nodes")
    async with ours(tmp_path, log) as extender:
        answer = await filtered(extender, original)

    assert original["NodeNames"] == ["gpu-a"]
    assert answer["NodeNames"] is None
    assert answer["Nodes"] == {"metadata": {}, "items": [node_object("gpu-a", 46, 2)]}


async def test_golden_what_no_eviction_can_help_is_said_to_be_so(
    tmp_path: Path, log: EventLog
) -> None:
    """The original says so of no node, and pods are evicted for one that never fits."""
    async with ours(tmp_path, log) as extender:
        strange = await filtered(extender, vector("filter", "filter NodeNames"))
        await extender.api.delete("pods", "asks")
        too_big = await filtered(extender, vector("filter", "filter too big"))

    assert strange["FailedNodes"] == too_big["FailedNodes"] == {}
    assert set(strange["FailedAndUnresolvableNodes"]) == {"cpu", "ghost"}
    assert set(too_big["FailedAndUnresolvableNodes"]) == {"gpu-a"}


async def test_golden_a_reason_tells_what_is_free_and_what_was_asked(
    tmp_path: Path, log: EventLog
) -> None:
    """The original's "Insufficient GPU Memory in one device" leaves both to be guessed."""
    async with ours(tmp_path, log, before=(held("a", 20, 0), held("b", 15, 1))) as extender:
        pod = await extender.create(pod_object("p", 9))
        answer = await extender.filter(pod, "gpu-a")

    assert vector("filter", "filter too big")["FailedNodes"]["gpu-a"].startswith("Insufficient")
    reason = answer["FailedNodes"]["gpu-a"]
    assert "8 of 9" in reason
    assert "11" in reason


# ------------------------------------------------------------------------------ bind


async def test_golden_a_bind_is_one_request_that_carries_the_annotations(
    tmp_path: Path, log: EventLog
) -> None:
    """The original patches, then binds: what fails in between leaves a pod half done."""
    original = ORIGINAL["bind_of_p1"]
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p1", 4))
        before = extender.api.calls()[-1].number
        await extender.bind(pod, "gpu-a")
        writes = [call for call in extender.api.calls(after=before) if call.method != "GET"]

    assert original["writes"] == ["PATCH pods", "POST pods/binding"]
    [call] = writes
    assert (call.method, call.resource) == ("POST", "pods/binding")
    body, theirs = json.loads(call.body), json.loads(original["binding"])
    annotations = body["metadata"].pop("annotations")
    assert annotations.pop("gpushare.io/extender") == "1"
    assert annotations.keys() == original["annotations"].keys()
    assert (body["kind"], body["apiVersion"]) == (theirs["kind"], theirs["apiVersion"])
    assert body["metadata"]["name"] == "p1"
    assert body["metadata"]["uid"] == pod["metadata"]["uid"]
    assert {key: body["target"][key] for key in theirs["target"]} == theirs["target"]


@pytest.mark.parametrize(
    ("name", "change", "node_name"),
    [
        ("bind no room", {"before": 23}, "gpu-a"),
        ("bind wrong uid", {"uid": "other"}, "gpu-a"),
        ("bind missing pod", {"name": "nopod", "uid": "other"}, "gpu-a"),
        ("bind missing node", {}, "ghost"),
    ],
)
async def test_golden_a_bind_that_fails_is_a_200_with_the_reason(
    name: str, change: dict[str, Any], node_name: str, tmp_path: Path, log: EventLog
) -> None:
    """Of a 500 kube-scheduler drops the body, and nobody ever reads why."""
    full = (held("a", 23, 0), held("b", 23, 1)) if change.pop("before", 0) else ()
    async with ours(tmp_path, log, before=full) as extender:
        pod = await extender.create(pod_object("p", 4))
        pod["metadata"] |= change
        answer = await extender.bind(pod, node_name)

    assert vector("bind_error", name)["status"] == 500
    assert answer.status == 200
    assert answer.json["Error"]
    assert "Pod{" not in answer.json["Error"]


async def test_golden_a_pod_that_asks_for_nothing_is_bound_plainly(
    tmp_path: Path, log: EventLog
) -> None:
    """The original refuses it, after letting it through filter."""
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("pz"))
        answer = await extender.bind(pod, "gpu-a")
        bound = extender.api.get("pods", "pz")

    assert vector("bind_error", "bind pod without gpu-mem")["status"] == 500
    assert answer.json == {"Error": ""}
    assert bound["spec"]["nodeName"] == "gpu-a"
    assert not [key for key in bound["metadata"].get("annotations", {}) if key.startswith(PREFIX)]


async def test_golden_a_bind_that_is_refused_leaves_no_annotation(
    tmp_path: Path, log: EventLog
) -> None:
    """The original's stay on a pod that is on no node."""
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", 2))
        await extender.api.inject(
            Fault(kind=FaultKind.STATUS, resource="pods/binding", status=403, message="boom")
        )
        answer = await extender.bind(pod, "gpu-a")
        left = extender.api.get("pods", "p")["metadata"].get("annotations", {})
        used = await extender.used("gpu-a")

    assert vector("behaviour", "R5")["annotations_stay"]
    assert "boom" in answer.json["Error"]
    assert left == {}
    assert [units for _, units, _ in used] == [0, 0]


# -------------------------------------------------------------------------- accounts


async def test_golden_a_terminating_pod_holds_its_units_until_it_is_gone(
    tmp_path: Path, log: EventLog
) -> None:
    """The original frees the card while the process still has its memory."""
    original = vector("account", "after p2 terminating")["cards"]
    pods = (held("p1", 4, 0), held("p2", 4, 0), held("p4", 3, 1))
    async with ours(tmp_path, log, before=pods) as extender:
        await extender.api.terminate_pod("p2")
        await extender.create(held("after", 1, 1))
        await extender.comes_to_use("gpu-a", (8, ["p1", "p2"]), (4, ["after", "p4"]))

        await extender.api.finish_termination("p2")
        await extender.comes_to_use("gpu-a", tuple(original[0]), (4, ["after", "p4"]))


async def test_golden_a_pod_of_an_unknown_card_is_counted_on_all(
    tmp_path: Path, log: EventLog
) -> None:
    """One that another scheduler bound is nowhere in the original's account (R1)."""
    async with ours(tmp_path, log, before=(held("around", 5, None),)) as extender:
        pod = await extender.create(pod_object("p", 19))
        too_much = await extender.filter(pod, "gpu-a")
        fits = await extender.filter(await extender.create(pod_object("q", 18)), "gpu-a")

    assert too_much["NodeNames"] == []
    assert fits["NodeNames"] == ["gpu-a"]


async def test_golden_an_over_committed_card_has_no_room(tmp_path: Path, log: EventLog) -> None:
    """The original counts without sign: 23 less 30 was room for a thousand."""
    original = vector("behaviour", "R2")
    async with ours(tmp_path, log, before=(held("over", 30, 0), held("full", 23, 1))) as extender:
        for units in (1, original["units"]):
            pod = await extender.create(pod_object(f"p{units}", units))
            assert (await extender.filter(pod, "gpu-a"))["NodeNames"] == []

    assert original["fits"]


async def test_golden_a_pod_on_a_node_that_is_gone_does_not_stop_the_start(
    tmp_path: Path, log: EventLog
) -> None:
    """The original ends with 1 at each start, and no GPU pod is placed any more."""
    ghost = held("p", 4, 0, spec={"nodeName": "vanished"})
    async with ours(tmp_path, log, before=(ghost,)) as extender:
        pod = await extender.create(pod_object("q", 4))

        assert (await extender.filter(pod, "gpu-a"))["NodeNames"] == ["gpu-a"]
    assert vector("behaviour", "R3")["exit_code"] == 1


async def test_golden_a_pod_made_again_by_its_name_is_another_one(
    tmp_path: Path, log: EventLog
) -> None:
    """The original knows pods by name there, and the first one's units are never freed."""
    async with ours(tmp_path, log) as extender:
        for _ in range(17):
            pod = await extender.create(pod_object("sts-0", 20))
            assert (await extender.bind(pod, "gpu-a")).json == {"Error": ""}
            await extender.api.delete("pods", "sts-0")

        await extender.comes_to_use("gpu-a", (0, []), (0, []))
    assert vector("account", "R7")["held"] == [20]


# ------------------------------------------------------------------------------ news


async def test_golden_junk_in_the_unhealthy_list_is_passed_over_with_a_warning(
    tmp_path: Path, log: EventLog
) -> None:
    """The original reads it as card 0: a typing error takes a good card out."""
    original = vector("behaviour", "filter 20 w/ 'x'")
    async with ours(tmp_path, log) as extender:
        await list_unhealthy(extender, original["list"])
        for name, card in (("p", "0"), ("q", "1")):
            pod = await extender.create(pod_object(name, original["units"]))
            await extender.bind(pod, "gpu-a")
            annotations = extender.api.get("pods", name)["metadata"]["annotations"]
            assert annotations[f"{PREFIX}IDX"] == card

    assert log.of("unhealthy_list_unreadable")[0]["found"] == "x"


async def test_golden_a_blank_in_the_unhealthy_list_is_no_other_card(
    tmp_path: Path, log: EventLog
) -> None:
    """The original reads " 1" as card 0 too."""
    original = vector("behaviour", "filter 1..' 1'")
    async with ours(tmp_path, log) as extender:
        await list_unhealthy(extender, " 1")
        pod = await extender.create(pod_object("p", original["units"]))
        await extender.bind(pod, "gpu-a")
        annotations = extender.api.get("pods", "p")["metadata"]["annotations"]

    assert annotations[f"{PREFIX}IDX"] == "0"
    assert not log.of("unhealthy_list_unreadable")


async def test_golden_a_node_that_grows_or_loses_its_cards_is_taken_as_it_is(
    tmp_path: Path, log: EventLog
) -> None:
    """The original keeps a node as it first saw it, until its own restart."""
    grew, lost = vector("behaviour", "filter 40 after"), vector("behaviour", "filter 1 after")
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", grew["units"]))
        await extender.api.replace("nodes", node_object("gpu-a", 160, 4))
        await extender.comes_to_fit(pod, "gpu-a", fits=not grew["fits"])

        small = await extender.create(pod_object("q", lost["units"]))
        await extender.api.replace("nodes", node_object("gpu-a"))
        await extender.comes_to_fit(small, "gpu-a", fits=not lost["fits"])


# ----------------------------------------------------------------------------- pages


async def test_golden_inspect_of_an_unknown_node_is_answered(tmp_path: Path, log: EventLog) -> None:
    """The original's handler dies of it, and the caller sees a broken connection."""
    async with ours(tmp_path, log) as extender:
        answer = await extender.page("/gpushare-scheduler/inspect/ghost")

    assert "without response" in vector("behaviour", "inspect ghost")["answer"]
    assert (answer.status, answer.json["nodes"]) == (404, [])


async def test_golden_there_are_prioritize_health_and_metrics(
    tmp_path: Path, log: EventLog
) -> None:
    """The original has none: no node is ranked, and nothing tells whether it works."""
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", 4))
        ranks = await extender.post("prioritize", {"Pod": pod, "NodeNames": ["gpu-a", "cpu"]})
        pages = [await extender.page(path) for path in ("/healthz", "/readyz", "/metrics")]

    assert vector("behaviour", "prioritize")["status"] == 404
    assert {each["Host"]: each["Score"] for each in ranks.json} == {"gpu-a": 10, "cpu": 0}
    assert [page.status for page in pages] == [200, 200, 200]


async def test_golden_an_amount_only_in_requests_or_init_containers_counts(
    tmp_path: Path, log: EventLog
) -> None:
    """The original lets both through filter as pods of 0 units (R8)."""
    init = [{"name": "i", "image": "app:1", "resources": {"limits": {MEMORY: "24"}}}]
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", spec={"initContainers": init}))
        answer = await extender.filter(pod, "gpu-a")

        del pod["spec"]["initContainers"]
        pod["spec"]["containers"][0]["resources"] = {"requests": {MEMORY: "4"}}
        faulty = await extender.filter(pod, "gpu-a")

    assert list(answer["FailedAndUnresolvableNodes"]) == ["gpu-a"]
    assert "without a limit" in faulty["FailedAndUnresolvableNodes"]["gpu-a"]
