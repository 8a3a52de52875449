"""When a pod has its turn: priority, back-off, and what brings a refused pod back."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.scheduler import Result
from tests.sim.scheduler_peers import MEMORY, World, all_fit, node, none_fit, pod, world

Event = Callable[[SimApiServer], Awaitable[Any]]


async def refused(made: World, name: str, *, attempts: int = 1, **asked: Any) -> int:
    """A pod that waits for something to happen; returns how often it was tried."""
    await made.server.create("pods", pod(name, **asked))
    await made.scheduler.attempted(f"default/{name}", attempt=attempts)
    state = await made.scheduler.idle()
    assert [(queued.pod, queued.attempts) for queued in state.unschedulable] == [
        (f"default/{name}", attempts)
    ]
    return attempts


async def refused_by_extender(made: World, name: str) -> int:
    """The same; its new condition is an update of the pod, and brings it back once."""
    made.extender.answers["filter"] = none_fit("no card has room")
    return await refused(made, name, attempts=2, units=4)


async def stays(made: World, name: str, tried: int) -> bool:
    """Whether the pod is not tried again; another one that comes later is the measure."""
    await made.server.create("pods", pod("later"))
    await made.bound("later")
    await made.scheduler.attempted("default/later")
    # One that was brought back meanwhile would be in the queue now.
    await made.scheduler.idle()
    return made.scheduler.state().outcomes[f"default/{name}"].attempt == tried


async def test_the_highest_priority_comes_first_and_then_the_oldest(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.scheduler.pause()
        for name, priority in (("low", 1), ("first", 5), ("high", 9), ("second", 5)):
            await made.server.create("pods", pod(name, units=1, priority=priority))
        await made.scheduler.until(lambda: len(made.scheduler.state().active) == 4, failure=str)
        assert made.extender.calls == []
        await made.scheduler.resume()
        calls = await made.extender.called("filter", 4)

    names = [call.json["Pod"]["metadata"]["name"] for call in calls]
    assert names == ["high", "first", "second", "low"]


async def _annotate(server: SimApiServer) -> None:
    await server.patch("pods", "p", {"metadata": {"annotations": {"touched": "1"}}})


async def _annotate_node(server: SimApiServer) -> None:
    await server.patch("nodes", "a", {"metadata": {"annotations": {"health": "good"}}})


async def _label_node(server: SimApiServer) -> None:
    await server.patch("nodes", "a", {"metadata": {"labels": {"zone": "1"}}})


async def _grow_node(server: SimApiServer) -> None:
    amounts = {MEMORY: "20"}
    await server.patch("nodes", "a", {"status": {"allocatable": amounts, "capacity": amounts}})


async def _ready_node(server: SimApiServer) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    await server.patch("nodes", "a", {"status": {"conditions": [ready]}})


async def _add_node(server: SimApiServer) -> None:
    await server.create("nodes", node("b", units=1))


async def _delete_pod(server: SimApiServer) -> None:
    await server.delete("pods", "there")


async def _end_pod(server: SimApiServer) -> None:
    await server.set_pod_phase("there", "Succeeded")


ALL = (
    _annotate,
    _annotate_node,
    _label_node,
    _grow_node,
    _ready_node,
    _add_node,
    _delete_pod,
    _end_pod,
)


@pytest.mark.parametrize("event", ALL)
async def test_whatever_happens_brings_back_a_pod_that_an_extender_refused(
    tmp_path: Path,
    event: Event,
) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.server.create("pods", pod("there", units=4, nodeName="a"))
        tried = await refused_by_extender(made, "p")
        made.extender.answers["filter"] = all_fit
        await event(made.server)

        outcome = await made.scheduler.attempted("default/p", attempt=tried + 1)
        assert (outcome.attempt, outcome.result) == (tried + 1, Result.BOUND)


@pytest.mark.parametrize("event", [_delete_pod, _end_pod])
async def test_the_older_scheduler_does_not_bring_it_back_when_a_pod_ends(
    tmp_path: Path,
    event: Event,
) -> None:
    async with world(tmp_path, node("a"), requeue_on_delete=False) as made:
        await made.server.create("pods", pod("there", units=4, nodeName="a"))
        tried = await refused_by_extender(made, "p")
        made.extender.answers["filter"] = all_fit
        await event(made.server)

        assert await stays(made, "p", tried)
        await _annotate(made.server)
        assert await made.bound("p") == "a"


@pytest.mark.parametrize("event", [_grow_node, _delete_pod])
async def test_room_brings_back_a_pod_that_the_own_filters_refused(
    tmp_path: Path,
    event: Event,
) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.server.create("pods", pod("there", units=14, nodeName="a"))
        await refused(made, "p", units=4)
        await event(made.server)

        assert await made.bound("p") == "a"


@pytest.mark.parametrize("event", [_annotate, _annotate_node, _label_node, _ready_node])
async def test_what_gives_no_room_does_not_bring_it_back(tmp_path: Path, event: Event) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.server.create("pods", pod("there", units=14, nodeName="a"))
        tried = await refused(made, "p", units=4)
        await event(made.server)

        assert await stays(made, "p", tried)


async def test_a_heartbeat_of_a_node_is_no_event(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        await _ready_node(made.server)
        tried = await refused_by_extender(made, "p")
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        await made.server.patch("nodes", "a", {"status": {"conditions": [beat]}})

        assert await stays(made, "p", tried)


async def test_what_happens_during_its_cycle_brings_it_back_too(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        made.extender.gates["filter"] = gate = asyncio.Event()
        made.extender.answers["filter"] = none_fit("no card has room")
        await made.server.create("pods", pod("p", units=4))
        await made.extender.called("filter")
        version = made.scheduler.state().version
        await _label_node(made.server)
        await made.scheduler.newer_state(version)
        gate.set()
        # Once for what happened, and once more for the pod's own new condition.
        await made.scheduler.attempted("default/p", attempt=3)


async def test_an_idle_scheduler_waits_for_no_back_off_after_a_refusal(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), backoff_scale=1000.0) as made:
        await refused_by_extender(made, "p")
        made.extender.answers["filter"] = all_fit
        await _annotate(made.server)

        assert await made.bound("p") == "a"


async def test_an_older_scheduler_waits_for_the_back_off(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), backoff_scale=1000.0, pop_from_backoff=False) as made:
        made.extender.answers["filter"] = none_fit("no card has room")
        await made.server.create("pods", pod("p", units=4))
        await made.scheduler.attempted("default/p")
        await _annotate(made.server)
        await made.scheduler.until(
            lambda: bool(made.scheduler.state().backing_off), failure=lambda: "not backing off"
        )
        (queued,) = made.scheduler.state().backing_off

        assert 500 < queued.backoff_seconds <= 1000
        await made.server.create("pods", pod("later"))
        await made.scheduler.attempted("default/later")
        assert made.scheduler.state().outcomes["default/p"].attempt == 1


async def test_errors_double_the_back_off_up_to_the_limit(tmp_path: Path) -> None:
    config = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 3}
    async with world(tmp_path, node("a"), config=config, backoff_scale=0.02) as made:
        made.extender.answers["filter"] = lambda _: 500
        await made.server.create("pods", pod("p", units=4))
        await made.scheduler.attempted("default/p", attempt=4)
        made.extender.answers["filter"] = all_fit

        assert await made.bound("p") == "a"
        counts = made.scheduler.state().counts
        assert counts[Result.ERROR] >= 4


async def test_a_pod_that_nothing_helps_is_tried_again_in_the_end(tmp_path: Path) -> None:
    async with world(tmp_path, node("a", units=1), unschedulable_seconds=0.05) as made:
        await made.server.create("pods", pod("p", units=4))

        await made.scheduler.attempted("default/p", attempt=3)


async def test_the_same_note_again_counts_up_the_series_of_one_event(tmp_path: Path) -> None:
    async with world(tmp_path, node("a", units=1), unschedulable_seconds=0.05) as made:
        await made.server.create("pods", pod("p", units=4))
        await made.scheduler.attempted("default/p", attempt=3)
        await made.server.until(
            lambda: any("series" in event for event in made.server.objects("events")),
            failure=lambda: "no series",
        )

        assert len(made.notes("p")) == 1


async def test_a_pod_that_is_deleted_while_it_waits_is_out_of_the_queue(tmp_path: Path) -> None:
    async with world(tmp_path, node("a", units=1)) as made:
        await refused(made, "p", units=4)
        await made.server.delete("pods", "p")
        await made.scheduler.until(
            lambda: not made.scheduler.state().unschedulable, failure=lambda: "still there"
        )


async def test_a_pod_that_is_being_deleted_is_skipped(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.scheduler.pause()
        await made.server.create("pods", pod("p", units=4))
        await made.server.terminate_pod("p", grace_seconds=3000)
        await made.scheduler.until(lambda: bool(made.scheduler.state().active), failure=str)
        await made.scheduler.resume()
        outcome = await made.scheduler.attempted("default/p")

    assert outcome.result is Result.SKIPPED
    assert made.extender.calls == []


async def test_watches_that_break_lose_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        await made.server.create("pods", pod("there", units=14, nodeName="a"))
        await refused(made, "p", units=4)
        await made.server.go_away()
        await made.server.delete("pods", "there")
        await made.server.compact()
        await made.server.come_back()

        assert await made.bound("p") == "a"
