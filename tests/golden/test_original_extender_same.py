"""Where we answer as the original extender does, vector by vector."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.extender.daemons import extender_beside, pod_object
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

FILTERS = [each["name"] for each in ORIGINAL["filter"]]


@pytest.mark.parametrize("name", FILTERS)
async def test_golden_the_same_nodes_pass_filter(name: str, tmp_path: Path, log: EventLog) -> None:
    original = vector("filter", name)
    async with ours(tmp_path, log) as extender:
        answer = await filtered(extender, original)

    items = answer["Nodes"]["items"] if answer["Nodes"] else []
    passed = answer["NodeNames"] or [each["metadata"]["name"] for each in items]
    failed = answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"]
    assert passed == original["NodeNames"] == original["items"]
    assert set(failed) == set(original["FailedNodes"])
    assert answer["Error"] == ""


@pytest.mark.parametrize("original", ORIGINAL["error"], ids=lambda each: each["name"])
async def test_golden_what_cannot_be_read_is_a_200_with_an_error_and_nothing_else(
    original: dict[str, Any], tmp_path: Path, log: EventLog
) -> None:
    async with ours(tmp_path, log) as extender:
        bodies = {
            "filter neither": {"Pod": await extender.create(pod_object("p", 4))},
            "filter no pod": {"NodeNames": ["gpu-a"]},
            "filter bad json": "text",
        }
        answer = await extender.post("filter", bodies[original["name"]])

    result = answer.json
    assert original["text"]
    assert answer.status == 200
    assert result.pop("Error").startswith("filter: ")
    assert set(result.values()) == {None}


async def test_golden_four_binds_go_to_the_same_cards_with_the_same_annotations(
    tmp_path: Path, log: EventLog
) -> None:
    async with ours(tmp_path, log) as extender:
        for original in ORIGINAL["bind"]:
            pod = await extender.create(pod_object(original["name"], original["units"]))
            answer = await extender.bind(pod, "gpu-a")
            bound = extender.api.get("pods", original["name"])

            assert (answer.status, answer.json) == (200, {"Error": ""})
            assert bound["spec"]["nodeName"] == "gpu-a"
            annotations = bound["metadata"]["annotations"]
            time = annotations.pop(f"{PREFIX}ASSUME_TIME")
            assert len(time) == len(ORIGINAL["bind_of_p1"]["annotations"][f"{PREFIX}ASSUME_TIME"])
            assert annotations == {
                f"{PREFIX}ASSIGNED": "false",
                f"{PREFIX}DEV": "23",
                f"{PREFIX}IDX": original["IDX"],
                f"{PREFIX}POD": str(original["units"]),
                "gpushare.io/extender": "1",
            }

        page = (await extender.page("/gpushare-scheduler/inspect")).json
        one = (await extender.page("/gpushare-scheduler/inspect/gpu-a")).json

    wanted = json.loads(ORIGINAL["inspect"]["page"])["nodes"]
    assert page["nodes"] == sorted(wanted, key=lambda each: each["name"])
    assert one["nodes"] == [each for each in wanted if each["name"] == "gpu-a"]


async def test_golden_a_pod_that_succeeded_frees_its_card(tmp_path: Path, log: EventLog) -> None:
    pods = (held("p1", 4, 0), held("p2", 4, 0), held("p3", 16, 1), held("p4", 3, 1))
    async with ours(tmp_path, log, before=pods) as extender:
        await extender.api.set_pod_phase("p3", "Succeeded")

        first, second = vector("account", "after p3")["cards"]
        await extender.comes_to_use("gpu-a", tuple(first), tuple(second))


async def test_golden_a_start_rebuilds_what_running_and_pending_pods_hold(
    tmp_path: Path, log: EventLog
) -> None:
    pods = (
        held("run", 4, 0, status={"phase": "Running"}),
        held("pend", 3, 0, status={"phase": "Pending"}),
        held("done", 5, 1, status={"phase": "Succeeded"}),
    )
    async with ours(tmp_path, log, before=pods) as extender:
        used = await extender.used("gpu-a")

    assert [[units, names] for _, units, names in used] == vector("account", "R1")["cards"]


async def test_golden_eight_binds_at_once_place_six_and_no_card_is_over_committed(
    tmp_path: Path, log: EventLog
) -> None:
    original = vector("account", "R4")
    async with ours(tmp_path, log) as extender:
        pods = [await extender.create(pod_object(f"c{n}", 6)) for n in range(8)]
        answers = await asyncio.gather(*(extender.bind(pod, "gpu-a") for pod in pods))
        used = await extender.used("gpu-a")

    errors = [answer.json["Error"] for answer in answers]
    assert errors.count("") == original["status"]["200"]
    assert [units for _, units, _ in used] == original["held"]


@pytest.mark.parametrize("name", ["filter 20 w/ gpu0 unhealthy", "filter 1 w/ both unhealthy"])
async def test_golden_cards_in_the_unhealthy_list_are_out_of_choice(
    name: str, tmp_path: Path, log: EventLog
) -> None:
    original = vector("behaviour", name)
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", original["units"]))
        await list_unhealthy(extender, original["list"])
        answer = await extender.filter(pod, "gpu-a")
        assert bool(answer["NodeNames"]) is original["fits"]

        await extender.api.delete("configmaps", "unhealthy-gpu-gpu-a", namespace="kube-system")
        again = vector("behaviour", "filter after cm deleted")
        await extender.comes_to_fit(pod, "gpu-a", fits=again["fits"])


@pytest.mark.parametrize("original", ORIGINAL["quantity"], ids=lambda each: each["text"])
async def test_golden_amounts_are_rounded_up_as_kubernetes_does(
    original: dict[str, Any], tmp_path: Path, log: EventLog
) -> None:
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", original["text"]))
        answer = await extender.filter(pod, "gpu-a")
        assert bool(answer["NodeNames"]) is original["fits"]
        if original["fits"]:
            await extender.bind(pod, "gpu-a")
            bound = extender.api.get("pods", "p")

            assert bound["metadata"]["annotations"][f"{PREFIX}POD"] == original["POD"]


async def test_golden_a_restart_finds_what_the_last_one_bound(
    tmp_path: Path, log: EventLog
) -> None:
    async with ours(tmp_path, log) as extender:
        pod = await extender.create(pod_object("p", 16))
        await extender.bind(pod, "gpu-a")
        async with extender_beside(extender.api, tmp_path, log) as next_one:
            assert await next_one.used("gpu-a") == [(23, 16, ["p"]), (23, 0, [])]
