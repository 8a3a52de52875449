"""Which pod a call is for: known where PodResources tells, and never at the pod's cost."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc import aio

from gpushare_plugin.core.association import Known, ListedPod, NoPod, PodName
from gpushare_plugin.core.pods import Phase as SpecPhase
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import PodResourcesError
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import (
    LISTS_AT_ONCE,
    SLOW_TICK_SECONDS,
    Admission,
    Call,
    Limiter,
)
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.sim.kubelet import Faults, Phase, PodResourcesShape
from tests.core.pods import listing
from tests.core.pods import pod as core_pod
from tests.node.event_log import EventLog, listening
from tests.node.nodes import RESOURCE, Machine, node_in, pod
from tests.node.waiting import eventually

RUNNING = Phase.RUNNING


@pytest.mark.parametrize("shape", list(PodResourcesShape))
async def test_the_pod_of_each_call_is_named_in_the_log(
    short_path: Path, log: EventLog, shape: PodResourcesShape
) -> None:
    kubelet = Machine(kubelet={"podresources_shape": shape})
    async with node_in(short_path, log, kubelet) as node:
        await node.ready()

        for name in ("a", "b", "c"):
            await node.kubelet.admit(pod(name, 3))
        await node.kubelet.finish_pod("uid-b", Phase.SUCCEEDED)
        await node.kubelet.admit(pod("d", 2))

    named = [event["pod"] for event in log.of("allocated")]
    assert named == ["default/a", "default/b", "default/c", "default/d"]


async def test_an_old_kubelet_that_lists_ended_pods_makes_no_wrong_name(
    short_path: Path, log: EventLog
) -> None:
    old = Machine(kubelet={"list_ended_pods": True})
    async with node_in(short_path, log, old) as node:
        await node.ready()
        await node.kubelet.admit(pod("ended", 3))
        await node.kubelet.finish_pod("uid-ended", Phase.SUCCEEDED)

        await node.kubelet.admit(pod("new", 2))

    assert log.of("allocated")[-1]["pod"] in {"default/new", "unknown"}


async def test_every_container_of_a_pod_is_named(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        await node.kubelet.admit(pod("several", 2, 3, 1))

    assert [event["pod"] for event in log.of("allocated")] == ["default/several"] * 3


async def test_a_refused_pod_is_named_and_the_next_one_too(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        refused = await node.kubelet.admit(pod("too-large", 16))
        await node.kubelet.admit(pod("next", 2))

    assert refused.phase is Phase.FAILED
    assert [event["pod"] for event in log.of("allocate_refused")] == ["default/too-large"]
    assert [event["pod"] for event in log.of("allocated")] == ["default/next"]


async def test_the_answers_are_counted(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()
        await node.kubelet.admit(pod("a", 3))

        assert await node.metric("gpushare_pod_lookups_total", answer="known") == 1


async def test_who_holds_what_is_shown_once_things_are_quiet(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()
        await node.kubelet.admit(pod("a", 3))

        async def three_are_shown() -> bool:
            return await node.metric("gpushare_container_units", pod="a", container="c0") == 3

        await eventually(three_are_shown)

        assert await node.metric("gpushare_card_allocated_units", index="0") == 3
        assert await node.metric("gpushare_card_allocated_units", index="1") == 0


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults(pod_resources_unimplemented=True), id="unimplemented"),
        pytest.param(Faults(pod_resources_absent=True), id="absent"),
        pytest.param(Faults(list_seconds=3600.0), id="hangs"),
    ],
)
async def test_a_pod_is_served_though_pod_resources_does_not_tell_whose_call_it_is(
    short_path: Path, log: EventLog, faults: Faults
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await node.kubelet.set_faults(faults)
        await node.kubelet.start()
        await node.ready()

        status = await node.kubelet.admit(pod("a", 3))

    assert status.phase is RUNNING
    assert [event["pod"] for event in log.of("allocated")] == ["unknown"]
    [call] = [rpc for rpc in node.kubelet.state().rpcs if rpc.method == "GetPreferredAllocation"]
    assert call.error == ""


async def test_pods_are_served_though_somebody_else_uses_up_the_kubelets_rate_limit(
    short_path: Path, log: EventLog
) -> None:
    stingy = Machine(kubelet={"list_calls_per_second": 0.001, "list_burst_calls": 1})
    async with node_in(short_path, log, stingy) as node:
        await node.ready()

        statuses = [await node.kubelet.admit(pod(f"p{n}", 1)) for n in range(12)]

    assert {status.phase for status in statuses} == {RUNNING}


async def test_pods_are_served_though_pod_resources_answers_with_nonsense(
    short_path: Path, log: EventLog
) -> None:
    # Nobody's kubelet does: but an error of ours here would fail every pod of the node.
    socket = short_path / "nonsense.sock"
    answer: grpc.RpcMethodHandler[bytes, bytes]
    answer = grpc.unary_unary_rpc_method_handler(_answer_nonsense)
    handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": answer})
    server = aio.server(handlers=[handler])
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        async with node_in(short_path, log, pod_resources_socket=str(socket)) as node:
            await node.ready()

            status = await node.kubelet.admit(pod("a", 3))
    finally:
        await server.stop(None)

    assert status.phase is RUNNING


async def _answer_nonsense(_: bytes, __: "aio.ServicerContext[bytes, bytes]") -> bytes:
    return b"\xff\xff\xff\xff"


class Hangs:
    """A PodResources that never answers."""

    async def list_pods(self, *_: object, **__: object) -> Sequence[ListedPod]:
        await asyncio.Event().wait()
        return ()


class Fails:
    """A PodResources that fails so often, and then tells of no pod."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.calls = 0

    async def list_pods(self, *_: object, **__: object) -> Sequence[ListedPod]:
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise PodResourcesError("rejected by rate limit")
        return ()


class Turns:
    """A PodResources that tells of these pods, until it fails."""

    def __init__(self, *pods: ListedPod) -> None:
        self.pods = pods
        self.fails = False

    async def list_pods(self, *_: object, **__: object) -> Sequence[ListedPod]:
        if self.fails:
            raise PodResourcesError("nobody answers")
        return self.pods


class Lists:
    """A PodResources that tells of these pods."""

    def __init__(self, *pods: ListedPod) -> None:
        self.pods = pods

    async def list_pods(self, *_: object, **__: object) -> Sequence[ListedPod]:
        return self.pods


def watching() -> PodSpecs:
    specs = PodSpecs()
    specs.watching = True
    return specs


def spec(uid: str, units: int = 2) -> Pod:
    return replace(core_pod(units), uid=uid)


NAME = PodName(namespace="default", name="a")
OLD_IDS, NEW_IDS = ("6f0c3a52-0", "6f0c3a52-1"), ("b81d94e7-0", "b81d94e7-1")


async def until_it_waits(call: "asyncio.Task[Call]") -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert not call.done()


async def test_a_pod_that_was_given_all_it_asks_for_is_not_taken_for_the_next_of_its_name() -> None:
    specs = watching()
    # The watch has not told that it is gone; it never ran, so its phase does not tell either.
    specs.put(spec("old"))
    specs.given(OLD_IDS, spec("old"), RESOURCE)
    admission = Admission(Lists(listing(c0=())), RESOURCE, NodeMetrics(), _clock(), specs)

    call = asyncio.create_task(admission.pod_of_call())
    await until_it_waits(call)
    specs.remove(spec("old"))
    specs.put(spec("new"))

    assert (await call).caller == Known(pod=NAME)
    assert specs.find(NAME, RESOURCE) == spec("new")


async def test_a_pod_that_was_given_a_part_is_waited_for_no_longer() -> None:
    specs = watching()
    half = replace(core_pod(1, 1), uid="half")
    specs.put(half)
    specs.given(OLD_IDS[:1], half, RESOURCE)
    listed = listing(c0=OLD_IDS[:1], c1=())
    admission = Admission(Lists(listed), RESOURCE, NodeMetrics(), _clock(), specs)

    call = await admission.pod_of_call()

    assert (call.caller, specs.find(NAME, RESOURCE)) == (Known(pod=NAME), half)


async def test_of_two_pods_of_a_name_the_one_that_waits_is_the_caller_as_listed() -> None:
    specs = watching()
    specs.given(OLD_IDS, spec("old"), RESOURCE)
    specs.put(spec("new"))
    old, new = listing(c0=OLD_IDS), listing(c0=())

    for listed in ((old, new), (new, old)):
        admission = Admission(Lists(*listed), RESOURCE, NodeMetrics(), _clock(), specs)
        call = await admission.pod_of_call()

        assert call.caller == Known(pod=NAME)
        assert call.listed is not None
        assert not call.listed.holds_devices


async def test_where_nobody_can_be_the_caller_the_specs_are_behind_and_waited_for() -> None:
    specs = watching()
    # The pod of the name before asks for nothing, and the watch knows of no other.
    specs.put(spec("old", units=0))
    admission = Admission(Lists(listing(c0=())), RESOURCE, NodeMetrics(), _clock(), specs)

    call = asyncio.create_task(admission.pod_of_call())
    await until_it_waits(call)
    specs.remove(spec("old", units=0))
    specs.put(spec("new"))

    assert (await call).caller == Known(pod=NAME)


async def test_a_pod_that_was_thought_the_caller_is_not_once_its_spec_asks_for_nothing() -> None:
    specs = watching()
    admission = Admission(Lists(listing(c0=())), RESOURCE, NodeMetrics(), _clock(), specs)

    call = asyncio.create_task(admission.pod_of_call())
    await until_it_waits(call)
    specs.put(spec("asks-for-nothing", units=0))

    assert (await call).caller == NoPod()


async def test_where_the_kubelet_does_not_list_the_one_pod_that_waits_is_guessed_and_counted() -> (
    None
):
    specs, metrics = watching(), NodeMetrics()
    specs.put(spec("waits"))
    running = replace(spec("runs"), name="runs", phase=SpecPhase.RUNNING)
    specs.put(running)
    specs.put(replace(spec("asks-for-nothing", units=0), name="nothing"))
    admission = Admission(Fails(times=99), RESOURCE, metrics, _clock(), specs)

    with listening() as log:
        call = await admission.pod_of_call()

    assert (call.caller, call.guessed) == (Known(pod=NAME), True)
    assert log.of("pod_guessed", pod=str(NAME))
    assert b'gpushare_pod_lookups_total{answer="guessed"} 1.0' in metrics.exposition()


async def test_where_the_kubelet_does_not_list_none_of_several_that_wait_is_guessed() -> None:
    specs = watching()
    specs.put(spec("one"))
    specs.put(replace(spec("other"), name="other"))
    admission = Admission(Fails(times=99), RESOURCE, NodeMetrics(), _clock(), specs)

    call = await admission.pod_of_call()

    assert (call.caller, call.guessed) == (NoPod(), False)


async def test_a_pod_that_was_listed_with_all_its_devices_is_not_guessed() -> None:
    specs, pods = watching(), Turns(listing(c0=OLD_IDS))
    specs.put(spec("served"))
    admission = Admission(pods, RESOURCE, NodeMetrics(), _clock(), specs)
    account = asyncio.create_task(admission.run())
    await eventually(lambda: admission.pods is not None)
    account.cancel()
    pods.fails = True

    assert (await admission.pod_of_call()).caller == NoPod()
    specs.put(replace(spec("next"), name="next"))
    assert (await admission.pod_of_call()).caller == Known(
        pod=PodName(namespace="default", name="next")
    )


async def test_one_failure_is_tried_again_within_the_budget() -> None:
    pods, metrics = Fails(times=1), NodeMetrics()
    admission = Admission(pods, RESOURCE, metrics, _clock(), PodSpecs())

    await admission.pod_of_call()

    assert pods.calls == 2
    assert b'pod_lookups_total{answer="none"} 1.0' in metrics.exposition()


async def test_an_answer_that_does_not_come_is_given_up_after_the_budget() -> None:
    metrics = NodeMetrics()
    admission = Admission(Hangs(), RESOURCE, metrics, _clock(), PodSpecs())

    async with asyncio.timeout(5):
        await admission.pod_of_call()

    assert b'pod_lookups_total{answer="failed"} 1.0' in metrics.exposition()


async def test_questions_stay_far_below_the_kubelets_own_limit() -> None:
    pods = Fails(times=0)
    admission = Admission(pods, RESOURCE, NodeMetrics(), _clock(), PodSpecs())

    for _ in range(30):
        await admission.pod_of_call()

    assert pods.calls == LISTS_AT_ONCE


def test_the_limiter_fills_with_time_and_never_over_its_brim() -> None:
    now = [0.0]
    limiter = Limiter(lambda: now[0])
    while limiter.take():
        pass

    now[0] = 0.021
    assert [limiter.take(), limiter.take()] == [True, False]
    now[0] = 3600.0
    assert sum(limiter.take() for _ in range(100)) == LISTS_AT_ONCE


def _clock() -> Callable[[], float]:
    """A clock that stands still."""
    return lambda: 1000.0


class Counts:
    """A PodResources that tells of no pod, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)

    async def list_pods(self, *_: object, **__: object) -> Sequence[ListedPod]:
        self.asked.release()
        return ()


async def test_the_account_is_asked_for_often_only_after_something_has_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "gpushare_plugin.node.admission"
    for name in ("UNSETTLED_TICK_SECONDS", "QUIET_SECONDS", "BETWEEN_LISTS_SECONDS"):
        monkeypatch.setattr(f"{module}.{name}", 0.001)
    counts, now = Counts(), [0.0]
    limiter = Limiter(time.monotonic)
    admission = Admission(
        counts, RESOURCE, NodeMetrics(), lambda: now[0], PodSpecs(), limiter=limiter
    )
    task = asyncio.create_task(admission.run())
    for _ in range(3):
        await counts.asked.acquire()

    now[0] = SLOW_TICK_SECONDS + 1
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0.3):
                await counts.asked.acquire()
    admission.allocation_happened()
    for _ in range(3):
        await counts.asked.acquire()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
