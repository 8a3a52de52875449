"""Leases: created, renewed, and lost to who was first."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gpushare_plugin.adapters.kube.scheduling_client import SchedulingClient
from gpushare_plugin.errors import ApiConflict, ApiNotFound
from gpushare_plugin.ports.scheduling import Lease
from gpushare_plugin.sim.apiserver import SimApiServer
from tests.adapters.kube_servers import scheduling_client_of

SOON = 5.0
OURS = Lease(
    namespace="kube-system",
    name="gpushare-extender",
    holder="extender-0_u1",
    duration_seconds=15,
    acquire_time="2026-01-31T08:00:00.000000Z",
    renew_time="2026-01-31T08:00:00.000000Z",
)
LATER = "2026-01-31T08:00:02.500000Z"


@asynccontextmanager
async def leasing() -> AsyncIterator[tuple[SimApiServer, SchedulingClient]]:
    async with SimApiServer() as server, scheduling_client_of(server.address) as (client, _):
        yield server, client


async def test_a_lease_is_created_read_and_renewed() -> None:
    async with leasing() as (server, client):
        made = await client.create_lease(OURS, timeout_seconds=SOON)
        read = await client.get_lease("kube-system", OURS.name, timeout_seconds=SOON)
        renewed = await client.update_lease(
            replace(read, renew_time=LATER, transitions=1), timeout_seconds=SOON
        )

        assert read == made == replace(OURS, version=made.version)
        assert renewed == replace(OURS, version=renewed.version, renew_time=LATER, transitions=1)
        assert int(renewed.version) > int(made.version)
        spec = server.get("leases", OURS.name, namespace="kube-system")["spec"]
        assert spec == {
            "holderIdentity": "extender-0_u1",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-31T08:00:00.000000Z",
            "renewTime": LATER,
            "leaseTransitions": 1,
        }


async def test_of_two_who_take_a_lease_the_second_is_told_to_read_it_again() -> None:
    async with leasing() as (_, client):
        read = await client.create_lease(OURS, timeout_seconds=SOON)
        await client.update_lease(replace(read, holder="first"), timeout_seconds=SOON)
        with pytest.raises(ApiConflict, match=r"409 .*read it again"):
            await client.update_lease(replace(read, holder="second"), timeout_seconds=SOON)

        now = await client.get_lease("kube-system", OURS.name, timeout_seconds=SOON)
        assert now.holder == "first"


async def test_a_lease_that_is_there_is_not_created_again() -> None:
    async with leasing() as (_, client):
        await client.create_lease(OURS, timeout_seconds=SOON)
        with pytest.raises(ApiConflict, match=r"409 .*already exists"):
            await client.create_lease(OURS, timeout_seconds=SOON)


async def test_a_lease_that_is_not_there_is_not_found() -> None:
    async with leasing() as (server, client):
        with pytest.raises(ApiNotFound, match=r'leases\.coordination\.k8s\.io "x" not found'):
            await client.get_lease("kube-system", "x", timeout_seconds=SOON)

        made = await client.create_lease(OURS, timeout_seconds=SOON)
        await server.delete("leases", OURS.name, namespace="kube-system")
        with pytest.raises(ApiNotFound):
            await client.update_lease(made, timeout_seconds=SOON)


async def test_what_we_do_not_know_of_a_lease_stays() -> None:
    theirs = {
        "metadata": {
            "name": "theirs",
            "namespace": "kube-system",
            "labels": {"app": "x"},
            "annotations": {"note": "kept"},
        },
        "spec": {"strategy": "OldestEmulationVersion", "holderIdentity": "them"},
    }
    async with leasing() as (server, client):
        await server.create("leases", theirs)
        read = await client.get_lease("kube-system", "theirs", timeout_seconds=SOON)
        taken = replace(OURS, name="theirs", version=read.version, document=read.document)
        await client.update_lease(taken, timeout_seconds=SOON)

        after = server.get("leases", "theirs", namespace="kube-system")
        assert after["metadata"]["labels"] == {"app": "x"}
        assert after["metadata"]["annotations"] == {"note": "kept"}
        assert after["spec"]["strategy"] == "OldestEmulationVersion"
        assert after["spec"]["holderIdentity"] == OURS.holder


async def test_a_lease_without_any_holder_is_read_as_given_up() -> None:
    async with leasing() as (server, client):
        await server.create("leases", {"metadata": {"name": "l", "namespace": "kube-system"}})
        read = await client.get_lease("kube-system", "l", timeout_seconds=SOON)

        taken = await client.update_lease(replace(read, holder="us"), timeout_seconds=SOON)

        assert (read.holder, read.duration_seconds, read.renew_time) == ("", 0, "")
        assert taken == replace(read, holder="us", version=taken.version)
