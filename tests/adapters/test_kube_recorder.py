"""Kubernetes events: told once, counted up after, and told again once forgotten."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpushare_plugin.adapters.kube.recorder import REMEMBERED_EVENTS, EventRecorder
from gpushare_plugin.errors import ApiUnavailable
from gpushare_plugin.ports.cluster import Occurrence, Subject
from gpushare_plugin.sim.apiserver import Fault, FaultKind, SimApiServer
from tests.adapters.kube_servers import client_of

NODE = Subject(kind="Node", name="node-1", uid="uid-1")
POD = Subject(kind="Pod", name="a", uid="uid-2", namespace="team")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 1, 11, 50, 52, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def recorder() -> AsyncIterator[tuple[SimApiServer, EventRecorder, Clock]]:
    clock = Clock()
    async with SimApiServer() as server, client_of(server.address) as client:
        yield server, EventRecorder(client, host="node-1", now=clock), clock


def unhealthy(message: str = "GPU-1: XID 79", subject: Subject = NODE) -> Occurrence:
    return Occurrence(subject=subject, reason="GpuUnhealthy", message=message, warning=True)


def events(server: SimApiServer) -> list[dict[str, Any]]:
    return list(server.objects("events"))


async def test_what_happened_stands_beside_its_object() -> None:
    async with recorder() as (server, recorded, _):
        await recorded.record(unhealthy())

        [event] = events(server)

    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "node-1",
        "uid": "uid-1",
    }
    assert (event["type"], event["reason"]) == ("Warning", "GpuUnhealthy")
    assert event["message"] == "GPU-1: XID 79"
    assert event["source"] == {"component": "gpushare", "host": "node-1"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-12-01T11:50:52Z"
    assert event["count"] == 1


async def test_an_event_about_a_pod_is_in_its_namespace() -> None:
    async with recorder() as (server, recorded, _):
        await server.create("namespaces", {"metadata": {"name": "team"}})
        await recorded.record(
            Occurrence(subject=POD, reason="GpuMemoryAllocated", message="4 units")
        )

        [event] = events(server)

    assert event["metadata"]["namespace"] == event["involvedObject"]["namespace"] == "team"
    assert event["type"] == "Normal"


async def test_the_same_again_is_counted_up() -> None:
    async with recorder() as (server, recorded, clock):
        for _ in range(3):
            await recorded.record(unhealthy())
            clock.now += timedelta(minutes=1)
        await recorded.record(unhealthy("GPU-2: XID 48"))

        first, second = sorted(events(server), key=lambda each: str(each["message"]))

    assert (first["count"], first["lastTimestamp"]) == (3, "2026-12-01T11:52:52Z")
    assert second["count"] == 1


async def test_after_a_while_the_same_is_told_anew() -> None:
    async with recorder() as (server, recorded, clock):
        await recorded.record(unhealthy())
        clock.now += timedelta(minutes=11)
        await recorded.record(unhealthy())

        assert [event["count"] for event in events(server)] == [1, 1]


async def test_an_event_that_the_server_forgot_is_written_again() -> None:
    async with recorder() as (server, recorded, _):
        await recorded.record(unhealthy())
        await server.delete("events", events(server)[0]["metadata"]["name"])
        await recorded.record(unhealthy())

        assert [event["count"] for event in events(server)] == [1]


async def test_a_message_is_cut_to_what_the_server_takes() -> None:
    async with recorder() as (server, recorded, _):
        await recorded.record(unhealthy("x" * 3000))

        assert len(events(server)[0]["message"]) == 1024


async def test_what_is_remembered_is_bounded() -> None:
    async with recorder() as (server, recorded, _):
        for number in range(REMEMBERED_EVENTS + 1):
            await recorded.record(unhealthy(f"{number}"))
        await recorded.record(unhealthy("0"))

        assert len(events(server)) == REMEMBERED_EVENTS + 2


async def test_a_failure_is_the_callers_and_costs_no_count() -> None:
    async with recorder() as (server, recorded, _):
        await recorded.record(unhealthy())
        await server.inject(Fault(kind=FaultKind.STATUS, status=500, count=1))
        with pytest.raises(ApiUnavailable, match="patch events default/node-1"):
            await recorded.record(unhealthy())
        await recorded.record(unhealthy())

        assert [event["count"] for event in events(server)] == [2]
