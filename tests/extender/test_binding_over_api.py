"""Binds over a real API server's protocol: what it holds in the end is what the ledger says."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import Fault, FaultKind, SimApiServer
from tests.extender.clusters import INDEX
from tests.extender.daemons import HANGS_SECONDS, Extender, extender_beside, node_object, pod_object
from tests.node.event_log import EventLog

BINDINGS = "pods/binding"


async def waiting(extender: Extender, *units: int) -> list[dict[str, Any]]:
    """Pods that wait, and are known to the extender."""
    made = [await extender.create(pod_object(f"p{n}", each)) for n, each in enumerate(units)]
    await extender.comes_to_fit(made[-1], "gpu-a", fits=True)
    return made


def placed(api: SimApiServer, pod: dict[str, Any]) -> tuple[str, str]:
    """The node and the card that the API server holds of a pod."""
    meta = pod["metadata"]
    found = api.get("pods", meta["name"], namespace=meta["namespace"])
    annotations = found["metadata"].get("annotations", {})
    return found["spec"].get("nodeName", ""), annotations.get(INDEX, "")


async def doubts_nothing(extender: Extender) -> None:
    """Wait until no bind is of an unknown outcome."""
    text = ""
    async with asyncio.timeout(HANGS_SECONDS):
        while 'state="doubtful"} 0.0' not in text:
            text = (await extender.page("/metrics")).text


async def test_binds_at_once_fill_the_cards_and_not_one_unit_more(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        await api.create("nodes", node_object("gpu-a", 20, 2))
        pods = await waiting(extender, *[4] * 8)

        answers = await asyncio.gather(*(extender.bind(pod, "gpu-a") for pod in pods))

        texts = Counter(answer.json["Error"] for answer in answers)
        assert texts[""] == 4
        assert texts["no card of gpu-a has 4 units free any more: largest has 2"] == 4
        cards = Counter(placed(api, pod) for pod in pods)
        assert cards == {("gpu-a", "0"): 2, ("gpu-a", "1"): 2, ("", ""): 4}
        bound = [
            sorted(p["metadata"]["name"] for p in pods if placed(api, p)[1] == c) for c in "01"
        ]
        await extender.comes_to_use("gpu-a", (8, bound[0]), (8, bound[1]))


@pytest.mark.parametrize("kind", [FaultKind.LOSE_ANSWER, FaultKind.STATUS])
async def test_what_became_of_a_request_without_an_answer_is_looked_up(
    tmp_path: Path, log: EventLog, kind: FaultKind
) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        await api.create("nodes", node_object("gpu-a", 10, 1))
        pod, other = await waiting(extender, 8, 3)
        await api.inject(Fault(kind=kind, resource=BINDINGS, count=1, status=500))

        text = (await extender.bind(pod, "gpu-a")).json["Error"]

        carried_out = kind is FaultKind.LOSE_ANSWER
        assert placed(api, pod) == (("gpu-a", "0") if carried_out else ("", ""))
        assert text.startswith("outcome unknown: ") is not carried_out
        assert "free any more" in (await extender.bind(other, "gpu-a")).json["Error"]


async def test_a_bind_that_is_carried_out_after_its_answer_was_given_up_was_counted_all_along(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        await api.create("nodes", node_object("gpu-a", 10, 1))
        pod, other = await waiting(extender, 8, 3)
        await api.inject(Fault(kind=FaultKind.APPLY_LATE, resource=BINDINGS, count=1, seconds=3.5))

        assert (await extender.bind(pod, "gpu-a")).json["Error"].startswith("outcome unknown: ")
        assert placed(api, pod) == ("", "")
        assert "free any more" in (await extender.bind(other, "gpu-a")).json["Error"]

        await doubts_nothing(extender)
        assert placed(api, pod) == ("gpu-a", "0")
        assert await extender.used("gpu-a") == [(10, 8, ["p0"])]


async def test_a_restart_knows_what_was_bound_before(tmp_path: Path, log: EventLog) -> None:
    async with SimApiServer() as api:
        async with extender_beside(api, tmp_path, log) as extender:
            await api.create("nodes", node_object("gpu-a", 20, 2))
            pods = await waiting(extender, 6, 7)
            for pod in pods:
                assert (await extender.bind(pod, "gpu-a")).json == {"Error": ""}

        async with extender_beside(api, tmp_path, log) as extender:
            await extender.comes_to_use("gpu-a", (6, ["p0"]), (7, ["p1"]))


async def test_a_bind_for_another_uid_touches_nothing(tmp_path: Path, log: EventLog) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        await api.create("nodes", node_object("gpu-a", 20, 2))
        (pod,) = await waiting(extender, 6)
        pod["metadata"]["uid"] = "of another one"

        text = (await extender.bind(pod, "gpu-a")).json["Error"]

        assert text.startswith("pod default/p0 with UID of another one is gone")
        assert placed(api, pod) == ("", "")
