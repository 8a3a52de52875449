"""The API server away, slow or refusing: pods are served, and what happened is published later."""

import asyncio
from pathlib import Path

import pytest

from gpushare_plugin.sim.apiserver import Fault, FaultKind, SimApiServer
from gpushare_plugin.sim.kubelet import Phase
from tests.deploy.manifests import granted_rules
from tests.node.clusters import (
    ALLOCATION,
    NODE,
    cards_of,
    chosen,
    cluster_in,
    daemon_in,
    make_node,
)
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, node_in, pod
from tests.node.waiting import eventually


async def test_b129_what_is_granted_is_what_is_used_and_no_more(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.api.patch("nodes", NODE, {"status": {"capacity": {RESOURCE: "30"}}})
        await cluster.run("placed", 4, choice=chosen(1))
        await cluster.run("around", 4)
        cluster.node.gpus.xid(0, 79)
        await cluster.recorded()
        await cluster.published("placed")
        await cluster.event("GpuPlacedByNode")
        await cluster.event("GpuUnhealthy")
        # Two containers of one pod: the second event of a kind counts up the first.
        await cluster.run("two", 1, 1)
        await cluster.api.called("patch events", timeout_seconds=5)
        uses = [use for each in cluster.api.state().uses.values() for use in each]

    assert {(use.verb, use.group, use.resource) for use in uses} == granted_rules()


async def test_a_daemon_that_starts_while_the_api_server_is_away_serves_and_publishes_later(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await make_node(api)
        await api.go_away()
        async with daemon_in(short_path, log, api) as cluster:
            await cluster.node.ready()
            placed = await cluster.bind("placed", 4, choice=chosen(1))
            status = await cluster.node.kubelet.admit(placed)
            await api.come_back()

            await cluster.recorded()
            allocation = await cluster.allocation("placed")

    assert status.phase is Phase.RUNNING
    [units] = allocation["c0"].values()
    assert units == 4


async def test_b21_while_the_api_server_is_away_pods_go_where_its_last_word_says(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.recorded()
        known = await cluster.bind("known", 4, choice=chosen(1))
        await cluster.api.called("watch pods")
        await log.said("stream_opened")
        await cluster.run("earlier", 1)
        await cluster.api.go_away()

        statuses = [await cluster.node.kubelet.admit(each) for each in (known, pod("unknown", 3))]
        await cluster.api.come_back()
        allocation = await cluster.allocation("known")

    assert [status.phase for status in statuses] == [Phase.RUNNING] * 2
    assert cards_of(statuses[0]) == ["1"]
    assert [sum(units.values()) for units in allocation.values()] == [4]


@pytest.mark.parametrize("resource", ["pods/status", "nodes/status"])
@pytest.mark.parametrize("status", [403, 409, 422, 429, 500, 503])
async def test_a_write_that_is_refused_is_tried_again(
    short_path: Path, log: EventLog, resource: str, status: int
) -> None:
    async with SimApiServer() as api:
        await make_node(api)
        refused = Fault(
            kind=FaultKind.STATUS, verbs=("patch",), resource=resource, status=status, count=1
        )
        await api.inject(refused)
        async with daemon_in(short_path, log, api) as cluster:
            await cluster.ready()
            given = await cluster.run("a", 4, choice=chosen(1))
            await cluster.recorded()
            await cluster.published("a")
            faults = api.state().faults

    assert given.phase is Phase.RUNNING
    assert faults == {}


async def test_a_pod_that_cannot_be_written_keeps_no_other_waiting(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        barred = Fault(kind=FaultKind.STATUS, resource="pods/status", name="barred", status=403)
        await cluster.api.inject(barred)
        await cluster.run("barred", 2, choice=chosen(0))
        await cluster.api.called("patch pods/status", count=4)
        for number in range(3):
            await cluster.run(f"p{number}", 2, choice=chosen(1))
            await cluster.published(f"p{number}")
        annotations = cluster.api.get("pods", "barred")["metadata"]["annotations"]

    assert ALLOCATION not in annotations


async def test_an_answer_that_is_lost_does_no_harm(short_path: Path, log: EventLog) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.recorded()
        lost = Fault(kind=FaultKind.LOSE_ANSWER, verbs=("patch",), resource="pods/status", count=1)
        await cluster.api.inject(lost)
        await cluster.run("a", 4, choice=chosen(1))
        await cluster.published("a", ALIYUN_COM_GPU_MEM_ASSIGNED="true")


async def test_writes_that_hang_hold_up_no_pod(short_path: Path, log: EventLog) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.api.inject(Fault(kind=FaultKind.HANG, verbs=("patch", "create")))
        statuses = [await cluster.run(f"p{n}", 1, choice=chosen(n % 2)) for n in range(4)]

    assert [cards_of(status) for status in statuses] == [["0"], ["1"], ["0"], ["1"]]


async def test_b49_a_pod_that_the_watch_brings_late_is_waited_for(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.api.watched("pods")
        await cluster.api.inject(Fault(kind=FaultKind.LATE_EVENTS, resource="pods", seconds=0.2))
        status = await cluster.run("late", 4, choice=chosen(1))

    assert cards_of(status) == ["1"]


async def test_b87_the_metrics_tell_how_long_the_watches_have_been_silent(
    short_path: Path, log: EventLog
) -> None:
    stale = "gpushare_watch_stale_seconds"
    async with cluster_in(short_path, log, status_address="127.0.0.1:0") as cluster:
        await cluster.ready()
        for what in ("pods", "nodes"):
            await cluster.api.watched(what)
            await cluster.api.silence_watches(what)
        before = await cluster.node.metric(stale, what="pods")
        assert before is not None

        async def is_older() -> bool:
            return (await cluster.node.metric(stale, what="pods") or 0) > before + 0.2

        await eventually(is_older)
        assert await cluster.node.metric(stale, what="node") is not None


async def test_without_a_cluster_no_watch_can_be_silent(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()

        assert "watch_stale" not in (await node.page("/metrics"))[1]


async def test_a_pod_that_the_watch_never_brings_is_served_within_a_second_or_so(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.api.watched("pods")
        await cluster.api.silence_watches("pods")
        async with asyncio.timeout(10):
            status = await cluster.run("unseen", 4, choice=chosen(1))

    assert status.phase is Phase.RUNNING
