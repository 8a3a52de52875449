"""A relist on request: at once, from etcd, and told when it is held."""

import asyncio
from typing import Any

import pytest

from gpushare_plugin.adapters.kube.informer import Informer
from gpushare_plugin.adapters.kube.sources import PodSource
from gpushare_plugin.errors import ApiUnavailable
from gpushare_plugin.sim.apiserver import Fault, FaultKind, SimApiServer
from tests.adapters.kube_servers import MEMORY, NoWaits, client_of, following

SOON = 5.0


def pod(name: str) -> dict[str, Any]:
    limits = {MEMORY: "2"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return {"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [container]}}


async def came(server: SimApiServer, *, lists: int) -> None:
    """Wait until so many lists were asked for, answered or not."""
    await server.until(
        lambda: [call.verb for call in server.calls()].count("list") == lists,
        failure=lambda: "the list was never asked for",
    )


async def test_a_relist_finds_what_the_watch_did_not_tell() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        async with following(PodSource(client, first_from_cache=True)) as seen:
            await server.watched("pods")
            await server.silence_watches("pods")
            await server.delete("pods", "a")
            await server.create("pods", pod("b"))

            await seen.informer.relist(timeout_seconds=SOON)

            assert seen.names == ["default/b"]
            assert seen.told == ["+default/a", "-default/a", "+default/b"]
        _, forced = await server.called("list pods", count=2)
        assert "resourceVersion" not in forced.query


async def test_after_a_relist_the_watch_goes_on_from_it() -> None:
    async with (
        SimApiServer() as server,
        client_of(server.address) as client,
        following(PodSource(client)) as seen,
    ):
        await server.watched("pods")
        await seen.informer.relist(timeout_seconds=SOON)
        await server.create("pods", pod("a"))
        await seen.until(lambda: seen.names == ["default/a"])

        assert seen.waits.waits == 0
        assert len(server.state().watches) == 1


async def test_all_who_ask_before_a_list_begins_share_it() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        async with following(PodSource(client)) as seen:
            await server.watched("pods")
            async with asyncio.TaskGroup() as tasks:
                for _ in range(5):
                    tasks.create_task(seen.informer.relist(timeout_seconds=SOON))

        assert len(await server.called("list pods")) == 2


async def test_who_asks_while_a_list_is_read_gets_the_next_one() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        async with following(PodSource(client)) as seen:
            await server.watched("pods")
            slow = Fault(kind=FaultKind.SLOW, verbs=("list",), seconds=0.1, count=1)
            await server.inject(slow)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(seen.informer.relist(timeout_seconds=SOON))
                await came(server, lists=2)
                tasks.create_task(seen.informer.relist(timeout_seconds=SOON))

        assert len(await server.called("list pods")) == 3


@pytest.mark.parametrize(
    ("fault", "timeout_seconds", "told"),
    [
        (Fault(kind=FaultKind.HANG, verbs=("list",), count=1), 0.1, r"not whole within 0\.1 s"),
        (Fault(kind=FaultKind.STATUS, verbs=("list",), count=1), SOON, "500"),
    ],
)
async def test_a_relist_that_fails_is_told_and_what_was_held_is_held_on(
    fault: Fault, timeout_seconds: float, told: str
) -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        async with following(PodSource(client)) as seen:
            await server.watched("pods")
            await server.inject(fault)
            with pytest.raises(ApiUnavailable, match=rf"^list pods: .*{told}"):
                await seen.informer.relist(timeout_seconds=timeout_seconds)
            held = seen.names
            await server.create("pods", pod("b"))
            await seen.until(lambda: seen.names == ["default/a", "default/b"])

            assert held == ["default/a"]
            # The watch went on where it was: no other list was needed.
            assert len(await server.called("list pods")) == 2


async def test_a_relist_does_not_wait_for_a_first_list_that_hangs() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        await server.inject(Fault(kind=FaultKind.HANG, verbs=("list",), count=1))
        async with following(PodSource(client)) as seen:
            await came(server, lists=1)
            await seen.informer.relist(timeout_seconds=SOON)

            assert seen.informer.synced.is_set()
            assert seen.names == ["default/a"]


async def test_a_relist_does_not_wait_for_the_next_try() -> None:
    waiting = asyncio.Event()

    class Patient:
        def reset(self) -> None:
            pass

        def next_seconds(self) -> float:
            waiting.set()
            return 3600.0

    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        await server.inject(Fault(kind=FaultKind.STATUS, verbs=("list",), count=1))
        async with following(PodSource(client), waits=Patient()) as seen:
            await waiting.wait()
            await seen.informer.relist(timeout_seconds=SOON)

            assert seen.names == ["default/a"]


async def test_a_relist_that_nobody_carries_out_ends_in_its_time() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        async with following(PodSource(client)) as seen:
            await server.watched("pods")
        with pytest.raises(ApiUnavailable, match=r"not whole within 0\.05 s"):
            await seen.informer.relist(timeout_seconds=0.05)


async def test_a_relist_that_was_given_up_is_not_carried_out_later() -> None:
    waits = NoWaits()
    async with SimApiServer() as server, client_of(server.address) as client:
        clock = asyncio.get_running_loop().time
        informer = Informer(PodSource(client), lambda _: None, waits=waits, clock=clock)
        with pytest.raises(ApiUnavailable):
            await informer.relist(timeout_seconds=0.01)
        run = asyncio.create_task(informer.run())
        await server.watched("pods")
        run.cancel()
        await asyncio.wait([run])

        assert waits.waits == 0
        assert len(await server.called("list pods")) == 1


async def test_who_gives_up_a_relist_leaves_nothing_behind() -> None:
    async with (
        SimApiServer() as server,
        client_of(server.address) as client,
        following(PodSource(client)) as seen,
    ):
        await server.watched("pods")
        asking = asyncio.create_task(seen.informer.relist(timeout_seconds=SOON))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await server.create("pods", pod("a"))
        await seen.until(lambda: seen.names == ["default/a"])

        assert asking.cancelled()
