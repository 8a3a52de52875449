"""The picture of the cluster stays true, whatever the API server and the network do."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gpushare_plugin.adapters.kube.sources import NodeSource, PodSource, live_pods_of
from gpushare_plugin.ports.cluster import Gone, Upserted
from gpushare_plugin.sim.apiserver import (
    ApiServerSettings,
    Fault,
    FaultKind,
    SimApiServer,
    TooOld,
)
from tests.adapters.kube_servers import MEMORY, client_of, following
from tests.node.event_log import LOGGER, EventLog

NODE = "node-1"


@pytest.fixture
def log() -> Iterator[EventLog]:
    logger, handler = logging.getLogger(LOGGER), EventLog()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def pod(name: str, *, node: str = NODE, units: int = 2) -> dict[str, Any]:
    limits = {MEMORY: str(units)}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


async def test_what_is_there_and_what_comes_and_goes_is_told() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        async with following(PodSource(client)) as seen:
            await seen.informer.synced.wait()
            await server.create("pods", pod("b"))
            await server.delete("pods", "a")
            await seen.until(lambda: len(seen.changes) == 3)

            assert seen.told == ["+default/a", "+default/b", "-default/a"]
            assert seen.names == ["default/b"]


async def test_the_pods_of_a_node_are_those_bound_to_it_that_have_not_ended() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("elsewhere", node="node-2"))
        await server.create("pods", pod("here"))
        async with following(PodSource(client, field_selector=live_pods_of(NODE))) as seen:
            await seen.informer.synced.wait()
            assert seen.names == ["default/here"]

            await server.set_pod_phase("here", "Succeeded")
            await seen.until(lambda: not seen.names)

            assert seen.told == ["+default/here", "-default/here"]


@pytest.mark.parametrize("too_old", list(TooOld))
async def test_b86_a_forgotten_version_is_listed_anew_and_what_was_missed_is_told(
    too_old: TooOld, log: EventLog
) -> None:
    settings = ApiServerSettings(too_old=too_old)
    async with SimApiServer(settings) as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        async with following(PodSource(client)) as seen:
            await server.watched("pods")

            await server.go_away()
            await server.delete("pods", "a")
            await server.create("pods", pod("b"))
            await server.compact()
            await server.come_back()
            await seen.until(lambda: seen.names == ["default/b"])
            await server.watched("pods")
            await server.create("pods", pod("c"))
            await seen.until(lambda: len(seen.changes) == 4)

            assert seen.told == ["+default/a", "-default/a", "+default/b", "+default/c"]
    assert "410" in (await log.said("watch_failing", times=2))["error"]


async def test_b87_a_half_open_watch_is_opened_again_where_it_was(log: EventLog) -> None:
    async with (
        SimApiServer() as server,
        client_of(server.address, silence_seconds=0.1) as client,
        following(PodSource(client)) as seen,
    ):
        await server.watched("pods")
        assert await server.silence_watches("pods") == 1

        await server.create("pods", pod("a"))
        await seen.until(lambda: seen.names == ["default/a"])

        assert len(await server.called("list pods")) == 1
    assert "half-open" in (await log.said("watch_failing"))["error"]
    assert await log.said("watch_works", times=2)


async def test_b88_deletions_while_cut_off_are_found_by_the_next_watch_or_list() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create_many("pods", pod("p{n}"), 5)
        async with following(PodSource(client)) as seen:
            await server.watched("pods")

            await server.go_away()
            for name in ("p1", "p3", "p4"):
                await server.delete("pods", name)
            await server.come_back()
            await seen.until(lambda: len(seen.names) == 2)

            assert seen.names == ["default/p0", "default/p2"]


async def test_a_lost_deletion_is_found_by_the_relist() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        async with following(PodSource(client)) as seen:
            await server.watched("pods")
            await server.inject(
                Fault(kind=FaultKind.DROP_EVENTS, resource="pods", events=("DELETED",), count=1)
            )
            await server.delete("pods", "a")
            await server.create("pods", pod("b"))
            await seen.until(lambda: "default/b" in seen.names)
            assert seen.names == ["default/a", "default/b"]

            await server.go_away()
            await server.create("pods", pod("c"))
            await server.compact()
            await server.come_back()
            await seen.until(lambda: seen.names == ["default/b", "default/c"])


async def test_errors_of_the_server_are_told_once_and_outlived(log: EventLog) -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.inject(Fault(kind=FaultKind.STATUS, resource="pods", count=5, status=500))
        await server.create("pods", pod("a"))
        async with following(PodSource(client)) as seen:
            await seen.informer.synced.wait()

            assert seen.names == ["default/a"]
            assert seen.waits.waits == 5
        assert len(log.of("watch_failing")) == 1
        assert log.of("watch_works") == [
            {"level": "INFO", "what": "pods", "objects": "1"},
        ]


async def test_a_refusal_is_another_state_than_an_outage(log: EventLog) -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        for status in (500, 403, 500):
            await server.inject(
                Fault(kind=FaultKind.STATUS, resource="pods", count=2, status=status)
            )
        async with following(PodSource(client)) as seen:
            await seen.informer.synced.wait()

    said = [fields["error"] for fields in log.of("watch_failing")]
    assert [("forbidden" in text) for text in said] == [False, True, False]


async def test_a_watch_that_the_server_ends_is_resumed_without_a_list() -> None:
    async with (
        SimApiServer() as server,
        client_of(server.address) as client,
        following(PodSource(client)) as seen,
    ):
        await server.watched("pods")
        await server.create("pods", pod("a"))
        await seen.until(lambda: len(seen.changes) == 1)
        await server.cut_watches(cleanly=True)
        await server.create("pods", pod("b"))
        await seen.until(lambda: len(seen.changes) == 2)

        assert len(await server.called("list pods")) == 1
        assert seen.told == ["+default/a", "+default/b"]


async def test_a_node_that_is_made_again_is_another_one() -> None:
    node = {"metadata": {"name": NODE}}
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("nodes", {"metadata": {"name": "node-2"}})
        await server.create("nodes", node)
        async with following(NodeSource(client, NODE)) as seen:
            await server.watched("nodes")
            [first] = seen.informer.items.values()

            await server.delete("nodes", NODE)
            await server.create("nodes", node)
            await seen.until(lambda: len(seen.changes) == 3)

            [second] = seen.informer.items.values()
            assert [type(change) for change in seen.changes] == [Upserted, Gone, Upserted]
            assert first.name == second.name == NODE
            assert first.uid != second.uid


async def test_the_first_list_may_come_from_the_cache_and_no_other_does() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        source = PodSource(client, first_from_cache=True)
        async with following(source) as seen:
            await server.watched("pods")
            await server.go_away()
            await server.create("pods", pod("a"))
            await server.compact()
            await server.come_back()
            await seen.until(lambda: seen.names == ["default/a"])

            first, second = await server.called("list pods", count=2)

    assert first.query["resourceVersion"] == "0"
    assert "resourceVersion" not in second.query


async def test_staleness_grows_while_nothing_is_heard_and_ends_with_any_word() -> None:
    now = [1000.0]
    async with (
        SimApiServer() as server,
        client_of(server.address) as client,
        following(PodSource(client), clock=lambda: now[0]) as seen,
    ):
        await server.watched("pods")
        now[0] += 300
        assert seen.informer.stale_seconds == 300

        await server.create("pods", pod("a"))
        await seen.until(lambda: seen.names == ["default/a"])

        assert seen.informer.stale_seconds == 0
