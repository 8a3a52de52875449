"""Binding: in the background, taken back on failure, and what an extender may answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import Fault, FaultKind
from gpushare_plugin.sim.scheduler import Result
from tests.sim.scheduler_peers import MEMORY, Json, node, pod, world


async def test_the_next_pod_is_filtered_while_a_binding_is_on_its_way(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        made.extender.gates["bind"] = gate = asyncio.Event()
        await made.server.create("pods", pod("p", units=10))
        await made.extender.called("bind")
        state = made.scheduler.state()
        await made.server.create("pods", pod("q", units=4))
        await made.extender.called("filter", 2)
        # What is assumed counts: no room for a third.
        await made.server.create("pods", pod("r", units=4))
        outcome = await made.scheduler.attempted("default/r")
        gate.set()
        await made.bound("p")
        await made.bound("q")

    assert (state.binding, state.assumed) == (("default/p",), {"default/p": "a"})
    assert outcome.message.startswith(f"0/1 nodes are available: 1 Insufficient {MEMORY}.")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"Error": "no card has room"}, "no card has room"),
        (500, "failed bind with extender at URL {url}/bind, code 500"),
        ({"error": "in lower case"}, "in lower case"),
        (b"", "EOF"),
    ],
)
async def test_a_binding_that_fails_is_an_event_and_the_room_is_free_again(
    tmp_path: Path,
    answer: Any,
    told: str,
) -> None:
    async with world(tmp_path, node("a"), backoff_scale=1000.0) as made:
        made.extender.answers["bind"] = lambda _: answer
        await made.server.create("pods", pod("p", units=16))
        outcome = await made.scheduler.attempted("default/p")
        state = made.scheduler.state()
        made.extender.answers["bind"] = made.bind
        await made.server.create("pods", pod("q", units=16))
        await made.bound("q")
        await made.scheduler.until(lambda: bool(made.notes("p")), failure=str)
        text = told.format(url=made.extender.address)
        (found,) = made.server.get("pods", "p")["status"]["conditions"]

    assert (outcome.result, outcome.node, outcome.message) == (Result.ERROR, "a", text)
    assert state.assumed == {}
    assert [queued.pod for queued in state.backing_off] == ["default/p"]
    assert made.notes("p") == [text]
    assert (found["reason"], found["message"]) == ("SchedulerError", text)


async def test_a_failed_binding_is_tried_again_after_its_back_off(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:
        answers = iter([500, {"Error": "not now"}])

        async def bind(asked: Json) -> Any:
            found = next(answers, None)
            return await made.bind(asked) if found is None else found

        made.extender.answers["bind"] = bind
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "a"
        assert len(made.extender.of("bind")) == 3


async def test_a_binding_that_was_done_though_its_answer_was_lost_is_not_repeated(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a")) as made:

        async def bind(asked: Json) -> Any:
            await made.bind(asked)
            await made.scheduler.until(
                lambda: not made.scheduler.state().assumed, failure=lambda: "not seen bound"
            )
            return 500

        made.extender.answers["bind"] = bind
        # No update of the pod may take it out of the queue later.
        await made.server.inject(Fault(kind=FaultKind.STATUS, resource="pods/status"))
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")
        state = await made.scheduler.idle()

    assert outcome.result is Result.ERROR
    assert (state.active, state.backing_off, state.unschedulable) == ((), (), ())
    assert len(made.extender.of("bind")) == 1


async def test_without_a_bind_verb_the_scheduler_binds_itself(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender={"bindVerb": ""}) as made:
        created = await made.server.create("pods", pod("p", units=4))
        await made.bound("p")
        (call,) = [each for each in made.server.calls() if each.resource == "pods/binding"]

    assert call.json["metadata"]["uid"] == created["metadata"]["uid"]
    assert call.json["target"] == {"kind": "Node", "name": "a"}


async def test_an_api_server_that_refuses_the_binding_is_an_error_of_the_pod(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, node("a"), extender={"bindVerb": ""}) as made:
        await made.server.inject(
            Fault(kind=FaultKind.STATUS, resource="pods/binding", message="no", count=1)
        )
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")

        assert outcome.message == 'running Bind plugin "DefaultBinder": no'
        assert await made.bound("p") == "a"


async def test_an_annotation_during_the_binding_starts_no_second_cycle(tmp_path: Path) -> None:
    async with world(tmp_path, node("a")) as made:

        async def bind(asked: Json) -> Any:
            change = {"metadata": {"annotations": {"chosen": "1"}}}
            await made.server.patch("pods", asked["PodName"], change)
            # Seen after the annotation, so that has been seen too.
            await made.server.create("pods", pod("marker", nodeName="a"))
            await made.scheduler.until(lambda: made.scheduler.state().pods == 2, failure=str)
            return await made.bind(asked)

        made.extender.answers["bind"] = bind
        await made.server.create("pods", pod("p", units=4))
        await made.bound("p")
        state = await made.scheduler.idle(known=("default/p",))

        assert [call.verb for call in made.extender.calls] == ["filter", "bind"]
        assert Result.SKIPPED not in state.counts


async def test_a_pod_deleted_during_its_binding_frees_its_room_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, node("a"), extender={"httpTimeout": "1m"}) as made:
        made.extender.gates["bind"] = gate = asyncio.Event()
        await made.server.create("pods", pod("p", units=16))
        await made.extender.called("bind")
        await made.server.create("pods", pod("q", units=16))
        await made.scheduler.attempted("default/q")
        await made.server.delete("pods", "p")
        await made.extender.called("bind", 2)
        made.extender.answers["bind"] = lambda _: {"Error": "gone"}
        gate.set()
