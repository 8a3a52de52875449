"""An NVML that hangs or breaks under us: it is said, and nobody else is held up."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from gpushare_plugin.adapters.podresources import PodResourcesClient
from gpushare_plugin.core.dialect import find_dialect
from gpushare_plugin.core.health import State
from gpushare_plugin.core.injection import InjectionRule
from gpushare_plugin.core.isolation import Isolation
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.errors import NvmlError
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.allocator import AllocationRule, Allocator
from gpushare_plugin.node.occurrences import Occurrences
from gpushare_plugin.node.resources import MemoryResource
from gpushare_plugin.node.service import DevicePluginService
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, RESOURCE, SECOND
from tests.node.plugin_client import Plugin, ids, plugin_at
from tests.node.scripted_gpus import ScriptedGpus, broken
from tests.node.waiting import eventually
from tests.node.watched import Watched, watching


@pytest.fixture
def gpus() -> Iterator[ScriptedGpus]:
    gpus = ScriptedGpus(FIRST, SECOND)
    yield gpus
    gpus.release()


async def _nobody_to_tell() -> None:
    pass


@asynccontextmanager
async def _served(watched: Watched, folder: Path) -> AsyncIterator[Plugin]:
    names = find_dialect("aliyun")
    rule = AllocationRule(
        resource=RESOURCE,
        annotations=names.annotations,
        policy=Policy.BINPACK,
        injection=InjectionRule(names=names.environment),
        isolation=Isolation.NONE,
        unit_mib=1024,
    )
    pods, specs = PodResourcesClient(folder / "none.sock"), PodSpecs()
    tellings = Tellings(Occurrences())
    service = DevicePluginService(
        watched.inventory,
        MemoryResource(
            Allocator(watched.inventory, specs, rule, watched.metrics, tellings),
            Admission(pods, RESOURCE, watched.metrics, watched.clock, specs),
            with_numa=False,
        ),
        watched.metrics,
        before_bad_news=_nobody_to_tell,
        allocate_deadline_seconds=5,
    )
    server = grpc.aio.server(handlers=[service.handler()])
    server.add_insecure_port(f"unix:{folder}/plugin.sock")
    await server.start()
    try:
        async with plugin_at(folder / "plugin.sock") as plugin:
            yield plugin
    finally:
        await server.stop(None)
        await pods.close()


@pytest.mark.parametrize("call", ["read", "probe"])
async def test_b21_a_call_that_hangs_is_said_and_allocate_still_answers(
    short_path: Path, gpus: ScriptedGpus, call: str
) -> None:
    async with watching(gpus) as watched, _served(watched, short_path) as plugin:
        assert watched.monitor.problem is None

        await watched.hung(call)
        [answer] = await plugin.allocate(ids(FIRST_TAG, 0))
        await plugin.preferred(available=ids(FIRST_TAG, 1), size=1)

        assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == FIRST
        assert watched.monitor.problem == "NVML has not answered for 30 s"


async def test_b21_what_hung_is_forgotten_once_it_answers(gpus: ScriptedGpus) -> None:
    async with watching(gpus) as watched:
        await watched.hung("read")
        assert watched.monitor.problem is not None

        gpus.release()
        await eventually(lambda: watched.monitor.problem is None)


async def test_b21_a_call_that_hangs_behind_one_that_answers_is_said_too(
    gpus: ScriptedGpus,
) -> None:
    # Two ask at once: the answer to the one must not make the other forgotten.
    async with watching(gpus, probe_seconds=3600) as watched:
        ask = watched.monitor._call
        slow = asyncio.create_task(ask(time.sleep, 0.1), name="a call that answers")
        await asyncio.sleep(0)
        began = gpus.hang("probe")
        hangs = asyncio.create_task(ask(gpus.probe, FIRST), name="a call that hangs")
        await slow
        assert await asyncio.to_thread(began.wait, 5)

        watched.clock.ahead_seconds += 30
        problem = watched.monitor.problem

        gpus.release()
        await hangs
    assert problem is not None


async def test_events_that_are_not_heard_for_long_are_said(gpus: ScriptedGpus) -> None:
    async with watching(gpus) as watched:
        await watched.hung("wait")

        assert watched.monitor.problem == "the driver's events have not been heard for 30 s"


async def test_b37_an_event_set_that_cannot_be_made_is_said_and_made_later(
    gpus: ScriptedGpus, log: EventLog
) -> None:
    gpus.fail("events", broken)
    async with watching(gpus) as watched:
        await log.said("event_set_lost")
        problem = watched.monitor.problem

        gpus.heal("events")
        await log.said("event_set_made_again")

        assert problem == "the driver's events are lost: the event set is broken"
        assert watched.monitor.problem is None
    assert len(log.of("event_set_lost")) == 1
    assert b"gpushare_event_set_failures_total" in watched.metrics.exposition()


async def test_b37_an_event_set_that_is_lost_later_is_made_again(
    gpus: ScriptedGpus, log: EventLog
) -> None:
    async with watching(gpus):
        gpus.fail("wait", broken)
        await log.said("event_set_lost")
        gpus.heal("wait")

        await log.said("event_set_made_again")

    assert gpus.calls.count("events") == gpus.calls.count("close_events") >= 2


async def test_b22_b37_an_event_thread_that_dies_of_something_else_ends_the_daemon(
    gpus: ScriptedGpus,
) -> None:
    watched = Watched(gpus, probe_seconds=0.05)
    gpus.fail("wait", lambda: RuntimeError("nobody thought of this"))

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(5):
            await watched.monitor.run()

    assert raised.group_contains(RuntimeError, match="nobody thought of this")


async def test_the_events_end_before_nvml_is_closed(gpus: ScriptedGpus) -> None:
    async with watching(gpus) as watched:
        await eventually(lambda: "wait" in gpus.calls)
        assert watched.monitor.problem is None

    assert gpus.calls[-2:] == ["close_events", "close"]


@pytest.mark.parametrize("call", ["read", "wait", "close"])
async def test_a_call_that_hangs_does_not_keep_the_monitor_from_its_end(
    gpus: ScriptedGpus, call: str
) -> None:
    # `watching` gives the end two seconds.
    async with watching(gpus) as watched:
        if call == "close":
            gpus.hang(call)
        else:
            await watched.hung(call)


async def test_a_card_whose_probe_fails_at_the_start_is_listed_as_unhealthy(
    gpus: ScriptedGpus,
) -> None:
    gpus.fail("probe", lambda: NvmlError("no answer"))
    async with watching(gpus, probe_seconds=3600) as watched:
        states = [state for _, state in watched.inventory.snapshot().cards]

    assert states == [State.UNHEALTHY] * 2
