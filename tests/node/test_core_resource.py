"""Compute as a resource beside memory: 100 cores a card, which name no card."""

import re
from pathlib import Path

import grpc
import pytest

from gpushare_plugin.adapters.plugin_folder import InstanceLock
from gpushare_plugin.core.association import ContainerDevices, ListedPod, PodName
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.pods import Container, ContainerKind, Pod
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.occurrences import Occurrences
from gpushare_plugin.node.resources import CoreResource
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings
from gpushare_plugin.sim.kubelet import Phase, PodSpec
from tests.node.event_log import EventLog
from tests.node.nodes import (
    FIRST,
    RESOURCE,
    SECOND,
    Machine,
    Node,
    node_in,
)
from tests.node.plugin_client import plugin_at
from tests.node.scripted_gpus import ScriptedGpus
from tests.node.two_resources import Asked, cluster_in
from tests.node.waiting import eventually

CORES = "aliyun.com/gpu-core.percentage"
ON = {"core_resource": "on"}
PAGES = {"status_address": "127.0.0.1:0"}


async def both_ready(node: Node, *, cores: int = 200, registrations: int = 1) -> None:
    """Wait until the kubelet has both resources, after so many registrations of each."""
    await node.ready(registrations=registrations)
    await node.kubelet.registered(CORES, count=registrations)
    await node.kubelet.allocatable(CORES, equals=cores)


def core_socket(node: Node) -> Path:
    [path] = node.plugin_dir.glob("aliyungpushare-core-*.sock")
    return path


def pod_of(name: str, *, memory: int, cores: int) -> PodSpec:
    asked = Asked(name=name, containers={"main": (memory, cores)})
    return asked.for_the_kubelet()


# ------------------------------------------------------------------- what is registered


async def test_the_kubelet_has_100_cores_a_card_beside_the_memory(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        resources = node.kubelet.state().resources

    assert {name: found.capacity for name, found in resources.items()} == {RESOURCE: 30, CORES: 200}
    assert set(resources[CORES].health) == {f"core-{n}" for n in range(200)}


async def test_by_default_there_is_memory_alone(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        assert set(node.kubelet.state().resources) == {RESOURCE}
        assert len(node.sockets()) == 1


async def test_cores_have_a_socket_of_their_own_and_no_preference(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        found = {each.resource: each for each in node.kubelet.state().registrations}
        async with plugin_at(core_socket(node)) as plugin:
            options = await plugin.options()

    assert re.fullmatch(r"aliyungpushare-core-[0-9a-f]{8}\.sock", found[CORES].endpoint)
    assert not found[CORES].get_preferred_allocation_available
    assert found[RESOURCE].get_preferred_allocation_available
    assert not options.get_preferred_allocation_available


async def test_an_old_kubelet_finds_in_the_registration_that_cores_have_no_preference(
    short_path: Path, log: EventLog
) -> None:
    old = Machine(kubelet={"options_from_register": True})
    async with node_in(short_path, log, old, **ON) as node:
        await both_ready(node)

        found = {each.resource: each for each in node.kubelet.state().registrations}

    prefers = {name: each.get_preferred_allocation_available for name, each in found.items()}
    assert prefers == {RESOURCE: True, CORES: False}


async def test_cores_are_registered_under_another_name_where_one_is_given(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, core_resource="example.com/cores") as node:
        await node.ready()
        await node.kubelet.allocatable("example.com/cores", equals=200)

        assert set(node.kubelet.state().resources) == {RESOURCE, "example.com/cores"}


# ------------------------------------------------------------------------------- health


async def test_an_ill_card_takes_100_cores_away_the_highest_and_gives_them_back(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        node.gpus.lost(0)
        await node.kubelet.allocatable(CORES, equals=100)
        health = node.kubelet.state().resources[CORES].health
        node.gpus.back(0)
        await node.kubelet.allocatable(CORES, equals=200)

    healthy = {device_id for device_id, state in health.items() if state == "Healthy"}
    assert healthy == {f"core-{n}" for n in range(100)}
    assert len(health) == 200


# ----------------------------------------------------------------------------- Allocate


async def test_a_container_of_both_gets_the_environment_of_its_memory_alone(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        status = await node.kubelet.admit(pod_of("a", memory=4, cores=30))

    container = status.container("main")
    assert status.phase is Phase.RUNNING
    assert len(container.devices[CORES]) == 30
    assert container.env["NVIDIA_VISIBLE_DEVICES"] == FIRST
    assert {key for key in container.env if "CORE" in key} == set()


async def test_each_container_has_an_answer_though_an_empty_one(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        async with plugin_at(core_socket(node)) as plugin:
            answers = await plugin.allocate(["core-0", "core-7"], ["core-199"])

    assert [dict(each.envs) for each in answers] == [{}, {}]


@pytest.mark.parametrize(
    ("device_ids", "words"),
    [
        (["core-200"], "expected core-0 to core-199"),
        (["core-01"], "'core-01': expected"),
        (["6f0c3a52-1"], "'6f0c3a52-1': expected"),
        (["core-1", "core-1"], "expected each once"),
        ([], "expected at least one device ID"),
    ],
)
async def test_what_are_no_cores_of_this_node_is_refused(
    short_path: Path, log: EventLog, device_ids: list[str], words: str
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        async with plugin_at(core_socket(node)) as plugin:
            code, text = await plugin.refusal(device_ids)

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert words in text


# ------------------------------------------------------------------ cores without memory


async def test_b62_cores_without_memory_are_refused_with_pod_container_and_cure(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, **ON) as cluster:
        await both_ready(cluster.node)

        containers = {"good": (4, 30), "bad": (0, 20)}
        status = await cluster.run(Asked(name="half", containers=containers))
        after = await cluster.run(Asked(name="next", containers={"main": (4, 20)}))

        await eventually(lambda: bool(cluster.api.objects("events")))
        told = [
            event["message"]
            for event in cluster.api.objects("events")
            if event["reason"] == "GpuRefused"
        ]

    text = (
        f"pod default/half, container bad asks for {CORES} and no {RESOURCE}: cores count on the"
        f" card of a container's memory; give the container a limit of {RESOURCE} too"
    )
    assert status.phase is Phase.FAILED
    assert f"gpushare: {text}" in status.message
    assert told == [text]
    assert after.phase is Phase.RUNNING


async def test_b62_cores_of_a_pod_that_is_not_known_are_given(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        status = await node.kubelet.admit(pod_of("unknown", memory=0, cores=30))

    assert status.phase is Phase.RUNNING
    assert [event["pod"] for event in log.of("cores_allocated")] == ["unknown"]


class Lists:
    """A PodResources that lists these pods, none of which holds anything yet."""

    def __init__(self, *names: str) -> None:
        self._pods = [
            ListedPod(
                pod=PodName(namespace="default", name=name),
                containers=(ContainerDevices(name="main", device_ids=()),),
            )
            for name in names
        ]

    async def list_pods(self, *_: object, **__: object) -> list[ListedPod]:
        return self._pods


def cores_for(specs: PodSpecs, *listed: str) -> CoreResource:
    """The resource on a node of two cards, whose kubelet lists these pods."""
    metrics = NodeMetrics()
    inventory = Inventory(SharingRule(units=UnitRule(unit_mib=1024)), metrics)
    inventory.take_reading(ScriptedGpus(FIRST, SECOND).read())
    admission = Admission(Lists(*listed), CORES, metrics, lambda: 1000.0, specs)
    return CoreResource(inventory, admission, specs, ALIYUN, Tellings(Occurrences()))


def known(*, memory: dict[str, int]) -> PodSpecs:
    """The specs of pods that ask for 10 cores, and so much memory."""
    specs = PodSpecs()
    specs.watching = True
    for name, units in memory.items():
        requests = {CORES: 10, RESOURCE: units} if units else {CORES: 10}
        container = Container(name="main", kind=ContainerKind.MAIN, requests=requests)
        specs.put(
            Pod(
                namespace="default",
                name=name,
                uid=name,
                containers=(container,),
                node_name="n",
            )
        )
    return specs


async def test_nobody_is_refused_for_what_another_pod_asks() -> None:
    # Both wait, so whose call it is would be a guess.
    cores = cores_for(known(memory={"bad": 0, "good": 4}), "bad", "good")

    [answer] = await cores.allocate([["core-0"]])

    assert answer.envs == {}


# ----------------------------------------------------------------- more than the cards have


@pytest.mark.parametrize("cores", [101, 150, 200])
async def test_more_cores_than_a_card_has_are_refused_with_container_cores_and_100_a_card(
    short_path: Path, log: EventLog, cores: int
) -> None:
    async with cluster_in(short_path, log, **ON) as cluster:
        await both_ready(cluster.node)

        status = await cluster.run(Asked(name="a", containers={"main": (4, cores)}))

    assert status.phase is Phase.FAILED
    assert (
        f"pod default/a, container main asks for {cores} {CORES}: a card has 100, and the container"
        " is on one card; ask for at most 100, or for more cards by the annotation"
        " gpushare.io/gpu-count"
    ) in status.message


@pytest.mark.parametrize(
    ("count", "cores", "phase"),
    [("2", 200, Phase.RUNNING), ("2", 100, Phase.RUNNING), ("3", 150, Phase.FAILED)],
)
async def test_a_container_of_several_cards_has_100_cores_of_each_that_it_really_gets(
    short_path: Path, log: EventLog, count: str, cores: int, phase: Phase
) -> None:
    # The node has two cards, so a pod that asks for three is served on one.
    wish = {"gpushare.io/gpu-count": count}
    async with cluster_in(short_path, log, **ON) as cluster:
        await both_ready(cluster.node)

        asked = Asked(name="a", containers={"main": (4, cores)}, annotations=wish)
        status = await cluster.run(asked)

    assert status.phase is phase


async def test_the_memory_alone_refuses_a_container_of_more_cores_than_its_card_has(
    short_path: Path, log: EventLog
) -> None:
    # Which of the two resources the kubelet asks for first is random; here it asks for one.
    async with cluster_in(short_path, log) as cluster:
        await cluster.node.ready()

        status = await cluster.run(Asked(name="a", containers={"main": (4, 150)}))

    assert status.phase is Phase.FAILED
    assert "a card has 100" in status.message


async def test_without_a_cluster_a_container_is_on_one_card_and_has_at_most_100_cores(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)
        async with plugin_at(core_socket(node)) as plugin:
            code, text = await plugin.refusal([f"core-{n}" for n in range(101)])
            served = await plugin.allocate([f"core-{n}" for n in range(100)])

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "a container asks for 101" in text
    assert len(served) == 1


# ------------------------------------------------------------- lives, locks, what is shown


async def test_after_a_restart_of_the_kubelet_both_are_there_again(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)
        before = set(node.plugin_dir.glob("*.sock"))

        await node.kubelet.restart()
        await both_ready(node, registrations=2)

        after = set(node.plugin_dir.glob("*.sock"))
    assert len(after) == 3
    assert after & before == {node.plugin_dir / "kubelet.sock"}


async def test_a_socket_that_is_deleted_is_made_anew_and_the_other_life_goes_on(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

        core_socket(node).unlink()
        await node.kubelet.registered(CORES, count=2)
        await node.kubelet.allocatable(CORES, equals=200)

        resources = [each.resource for each in node.kubelet.state().registrations]
    assert (resources.count(RESOURCE), resources.count(CORES)) == (1, 2)


async def test_cores_that_another_instance_serves_are_waited_for_and_memory_is_not(
    short_path: Path, log: EventLog
) -> None:
    (short_path / "plugins").mkdir()
    other = InstanceLock(short_path / "plugins", CORES)
    assert other.take()
    try:
        async with node_in(short_path, log, **ON, **PAGES) as node:
            await node.ready()
            line = await log.said("plugin_folder_unavailable")
            waiting = await node.page("/readyz")

            other.release()
            await both_ready(node)
    finally:
        other.release()

    assert line["error"] == "another instance serves this resource"
    assert waiting == (503, f"{CORES}: another instance serves this resource\n")


async def test_a_stop_takes_both_sockets_away_and_leaves_a_free_lock_for_each(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **ON) as node:
        await both_ready(node)

    names = {path.name for path in node.plugin_dir.glob("*gpu*") if path.suffix != ".json"}
    assert names == {
        "gpushare-aliyun.com_gpu-mem.lock",
        "gpushare-aliyun.com_gpu-core.percentage.lock",
    }
    for resource in (RESOURCE, CORES):
        lock = InstanceLock(short_path / "plugins", resource)
        assert lock.take()
        lock.release()


async def test_ready_and_registered_are_told_of_each_resource(
    short_path: Path, log: EventLog
) -> None:
    refusing = Machine(kubelet_runs=False)
    async with node_in(short_path, log, refusing, **ON, **PAGES) as node:
        status, text = await node.page("/readyz")
        await node.kubelet.start()
        await both_ready(node)

        registered = {
            resource: await node.metric("gpushare_registered", resource=resource)
            for resource in (RESOURCE, CORES)
        }
        ready = await node.page("/readyz")

    assert status == 503
    assert [line.split(": ")[0] for line in text.splitlines()] == [RESOURCE, CORES]
    assert registered == {RESOURCE: 1, CORES: 1}
    assert ready == (200, "ok\n")
