"""A pod that asks for several cards and cannot have them: served on one and told, or refused."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import Phase, PodStatus
from tests.node.clusters import INDEX, Cluster, cards_of, chosen, cluster_in
from tests.node.event_log import EventLog
from tests.node.nodes import metric

COUNT = "gpushare.io/gpu-count"
NOT_FOLLOWED = "gpushare_card_counts_not_followed_total"
PAGES = {"status_address": "127.0.0.1:0"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A pod whose number of cards cannot be carried out, and what is told of it."""

    count: str
    units: tuple[int, ...]
    init: tuple[int, ...] = ()
    cause: str
    words: str

    async def admitted(self, cluster: Cluster) -> PodStatus:
        await cluster.ready()
        wish = {COUNT: self.count} | chosen(1)
        pod = await cluster.bind("a", *self.units, init=self.init, choice=wish)
        return await cluster.admit(pod)


FAULTS = [
    Asked(count="two", units=(4,), cause="unreadable", words="found 'two', expected a number"),
    Asked(count="3", units=(6,), cause="too_many_cards", words="this node shares 2"),
    Asked(count="2", units=(4, 5), cause="indivisible", words="the 5 units of container c1"),
    Asked(count="2", units=(4,), init=(4,), cause="init_container", words="init container i0"),
]
each_fault = pytest.mark.parametrize("asked", FAULTS, ids=lambda asked: asked.cause)


@each_fault
async def test_it_is_served_on_one_card_with_an_event_a_metric_and_the_cure(
    short_path: Path, log: EventLog, asked: Asked
) -> None:
    async with cluster_in(short_path, log, **PAGES) as cluster:
        status = await asked.admitted(cluster)
        event = await cluster.event("GpuCountNotFollowed")
        _, page = await cluster.node.page("/metrics")
        allocation = await cluster.allocation("a")

    served = len(asked.units) + len(asked.init)
    assert (status.phase, cards_of(status)) == (Phase.RUNNING, ["1"] * served)
    assert [len(by_card) for by_card in allocation.values()] == [1] * len(asked.units)
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "a")
    assert event["message"].startswith("served on one card: pod default/a (aliyun.com/gpu-mem: ")
    assert "cards of this node: 2" in event["message"]
    assert asked.words in event["message"]
    assert metric(page, NOT_FOLLOWED, cause=asked.cause) == served


@each_fault
async def test_where_it_is_strict_the_pod_is_refused_with_the_same_words(
    short_path: Path, log: EventLog, asked: Asked
) -> None:
    async with cluster_in(short_path, log, strict="on", **PAGES) as cluster:
        status = await asked.admitted(cluster)
        event = await cluster.event("GpuRefused")
        _, page = await cluster.node.page("/metrics")

    assert status.phase is Phase.FAILED
    assert asked.words in status.message
    assert "cards of this node: 2" in event["message"]
    assert metric(page, "gpushare_allocate_refusals_total", cause="card_count") == 1
    assert metric(page, NOT_FOLLOWED, cause=asked.cause) is None


async def _one_card_is_full(cluster: Cluster) -> None:
    await cluster.ready()
    await cluster.run("fills", 14, choice=chosen(0))


async def test_cards_that_have_no_room_at_that_moment_are_told_too(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, **PAGES) as cluster:
        await _one_card_is_full(cluster)
        status = await cluster.run("a", 4, choice={COUNT: "2"})
        event = await cluster.event("GpuCountNotFollowed")
        _, page = await cluster.node.page("/metrics")

    assert (status.phase, cards_of(status)) == (Phase.RUNNING, ["1"])
    assert "of the 2 cards of this node fewer than 2 had 2 of the container's 4" in event["message"]
    assert metric(page, NOT_FOLLOWED, cause="no_room") == 1


async def test_cards_that_have_no_room_are_refused_where_it_is_strict(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, strict="on") as cluster:
        await _one_card_is_full(cluster)
        status = await cluster.run("a", 4, choice={COUNT: "2"})

    assert status.phase is Phase.FAILED
    assert "annotation gpushare.io/gpu-count: found 2" in status.message


async def test_a_count_that_is_carried_out_is_told_to_nobody(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, **PAGES) as cluster:
        await cluster.ready()
        status = await cluster.run("a", 4, choice={COUNT: "2"} | chosen("0,1"))
        _, page = await cluster.node.page("/metrics")

    assert status.containers[0].env[INDEX] == "0,1"
    assert NOT_FOLLOWED + "{" not in page
    assert not log.of("card_count_not_followed")
