"""The server that is away and comes back, and its end."""

import asyncio

import aiohttp
import pytest

from gpushare_plugin.sim.apiserver import (
    Fault,
    FaultKind,
    SimApiServer,
)
from tests.sim.apiserver_peers import NODES, PODS, Api, node, pod, running


def now(api: Api) -> str:
    return str(api.server.state().resource_version)


async def test_a_server_that_is_away_refuses_connections_and_keeps_its_port() -> None:
    async with running() as api:
        address = api.server.address
        await api.server.create("nodes", node("n"))
        await api.server.go_away()
        with pytest.raises(aiohttp.ClientConnectorError, match="Connect call failed"):
            await api.get(NODES)
        away = api.server.state().away
        await api.server.come_back()
        reply = await api.get(NODES)

        assert away
        assert (reply.names, api.server.address) == (["n"], address)
        assert not api.server.state().away


async def test_going_away_breaks_watches_and_calls_that_hang() -> None:
    async with running() as api, api.watch(PODS, resourceVersion=now(api)) as stream:
        await api.server.inject(Fault(kind=FaultKind.HANG, resource="nodes"))
        async with asyncio.TaskGroup() as tasks:
            hanging = tasks.create_task(broken(api), name="a call that hangs")
            await api.server.until(
                lambda: any(call.resource == "nodes" for call in api.server.calls()),
                failure=lambda: "the call never came",
            )
            await api.server.go_away()
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.next()

        assert hanging.result()
        assert api.server.state().watches == ()


async def broken(api: Api) -> bool:
    # Disconnected, or refused where the client tries a reading call again by itself.
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.get(NODES)
    return True


async def test_going_away_and_coming_back_twice_is_as_once() -> None:
    async with running() as api:
        await api.server.come_back()
        await api.server.go_away()
        await api.server.go_away()
        await api.server.come_back()

        assert (await api.get(NODES)).status == 200


async def test_objects_change_while_the_server_is_away() -> None:
    async with running() as api:
        version = now(api)
        await api.server.go_away()
        await api.server.create("pods", pod("a"))
        await api.server.come_back()
        async with api.watch(PODS, resourceVersion=version) as stream:
            assert await stream.told(1) == [("ADDED", "a")]


async def test_a_server_that_ends_leaves_no_connection_and_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with running() as api:
        await api.server.inject(Fault(kind=FaultKind.HANG, resource="nodes"))
        task = asyncio.create_task(broken(api), name="a call that hangs")
        async with api.watch(PODS):
            await api.server.watched("pods")
            await api.server.__aexit__(None, None, None)
            await task

    assert asyncio.all_tasks() == before


async def test_two_servers_side_by_side_have_ports_of_their_own() -> None:
    async with SimApiServer() as one, SimApiServer() as two:
        await one.go_away()

        assert one.address != two.address
