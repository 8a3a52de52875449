"""What a plugin is asked when pods come, and what becomes of the pods."""

import asyncio
import sys
from pathlib import Path

import grpc
import pytest

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet import (
    ContainerSpec,
    KubeletStoppedError,
    Phase,
    PodStatus,
    SimKubelet,
    UnknownPodError,
)
from tests.sim.kubelet_peers import (
    RESOURCE,
    Context,
    TinyPlugin,
    devices,
    pod,
    pod_resources,
    running_kubelet,
)

CORES = "example.com/gpu-core"


def rejection(status: PodStatus) -> str:
    """The text between the words that every rejection has around it."""
    assert (status.phase, status.reason) == (Phase.FAILED, "UnexpectedAdmissionError")
    before, after = "Pod was rejected: Allocate failed due to ", ", which is unexpected"
    assert status.message.startswith(before)
    assert status.message.endswith(after)
    return status.message.removeprefix(before).removesuffix(after)


def container(name: str, units: int, **changes: object) -> ContainerSpec:
    return ContainerSpec(**{"name": name, "requests": {RESOURCE: units}, **changes})  # type: ignore[arg-type]


def allocated(kubelet: SimKubelet) -> int:
    return len(kubelet.state().resources[RESOURCE].allocated)


async def never(ids: list[str], context: Context) -> wire.AllocateResponse:
    await asyncio.Event().wait()
    raise AssertionError(ids)


async def refuse(ids: list[str], context: Context) -> wire.AllocateResponse:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "two cards")
    raise AssertionError(ids)


async def answer_nothing(ids: list[str], context: Context) -> wire.AllocateResponse:
    return wire.AllocateResponse()


async def test_an_admitted_pod_runs_with_the_devices_and_the_answer_of_the_plugin() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        status = await kubelet.admit(pod("a", 4))

        (ids,) = plugin.called("Allocate")
        main = status.container("main")
        assert status.phase is Phase.RUNNING
        assert len(ids) == 4
        assert main.devices == {RESOURCE: tuple(sorted(ids))}
        assert main.env == {"IDS": ",".join(sorted(ids))}
        assert kubelet.state().pod("uid-a") == status


async def test_allocate_is_called_once_for_each_container_that_asks_init_ones_first() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        containers = (container("x", 3), ContainerSpec(name="cpu"), container("y", 1))
        await kubelet.admit(pod("a", containers=containers, init_containers=(container("i", 5),)))

        assert [len(ids) for ids in plugin.called("Allocate")] == [5, 3, 1]


async def test_devices_come_in_no_order_and_in_the_same_one_for_the_same_seed() -> None:
    asked: list[list[list[str]]] = []
    for seed in (1, 1, 2):
        async with running_kubelet(seed=seed) as kubelet, TinyPlugin(kubelet, devices(9)) as plugin:
            await plugin.come_up()
            await kubelet.admit(pod("a", 9))
            asked.append(plugin.called("Allocate"))

    assert asked[0] == asked[1]
    assert asked[0] != asked[2]
    assert asked[0] != [sorted(asked[0][0])]


async def test_a_containers_resources_come_in_random_order() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(20)) as memory,
        TinyPlugin(kubelet, devices(20, prefix="c"), resource=CORES, endpoint="c.sock") as cores,
    ):
        await memory.come_up()
        await cores.come_up()
        both = ContainerSpec(name="main", requests={RESOURCE: 1, CORES: 1})
        for number in range(10):
            await kubelet.admit(pod(f"p{number}", containers=(both,)))

        order = [rpc.resource for rpc in kubelet.state().rpcs if rpc.method == "Allocate"]
        assert set(order[0::2]) == {RESOURCE, CORES}


async def test_a_request_of_0_and_one_for_an_unknown_resource_are_admitted_without_a_call() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(2)) as plugin:
        await plugin.come_up()
        nothing = ContainerSpec(name="main", requests={RESOURCE: 0, "cpu": 2, "example.com/x": 1})
        status = await kubelet.admit(pod("a", containers=(nothing,)))

        assert status.phase is Phase.RUNNING
        assert status.container("main").devices == {}
        assert plugin.called("Allocate") == []


async def test_an_error_from_allocate_fails_the_pod_for_good_and_frees_its_devices() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        plugin.on_allocate = refuse
        status = await kubelet.admit(pod("a", 4))

        assert rejection(status) == "rpc error: code = ResourceExhausted desc = two cards"
        assert allocated(kubelet) == 0
        assert len(plugin.called("Allocate")) == 1


async def test_a_shortage_names_what_was_asked_and_what_there_is() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        whole = await kubelet.admit(pod("a", 17))
        await kubelet.admit(pod("b", 10))
        rest = await kubelet.admit(pod("c", 7))

        words = f"requested number of devices unavailable for {RESOURCE}. Requested: "
        assert rejection(whole) == f"{words}17, Available: 16"
        assert rejection(rest) == f"{words}7, Available: 6"


async def test_without_a_healthy_device_the_pod_fails() -> None:
    async with running_kubelet() as kubelet:
        async with TinyPlugin(kubelet, devices(4, unhealthy=4)) as plugin:
            await plugin.come_up()
            all_unhealthy = await kubelet.admit(pod("a", 1))
        await kubelet.until(
            lambda: not kubelet.state().open_streams(RESOURCE), failure=lambda: "a stream is open"
        )
        plugin_gone = await kubelet.admit(pod("b", 1))

    text = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
    assert rejection(all_unhealthy) == text
    assert rejection(plugin_gone) == text


async def test_unhealthy_devices_are_not_given_out() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(16, unhealthy=3), prefer=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("a", 13))

        (asked,) = plugin.called("GetPreferredAllocation")
        assert len(asked.available_deviceIDs) == 13
        assert "d-0" not in asked.available_deviceIDs


async def test_an_empty_answer_fails_the_pod_and_leaks_until_another_device_pod_ends() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("holder", 1))
        plain, plugin.on_allocate = plugin.on_allocate, answer_nothing
        status = await kubelet.admit(pod("a", 2))
        plugin.on_allocate = plain
        leaked = await kubelet.admit(pod("b", 14))
        await kubelet.finish_pod("uid-holder", Phase.SUCCEEDED)
        healed = await kubelet.admit(pod("c", 16))

        assert rejection(status).startswith("no containers return in allocation response")
        assert rejection(leaked).endswith("Requested: 14, Available: 13")
        assert healed.phase is Phase.RUNNING


EOF = "rpc error: code = Unavailable desc = error reading from server: EOF"


async def test_a_plugin_killed_in_allocate_fails_the_pod_with_unavailable() -> None:
    async with running_kubelet() as kubelet:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.sim.kubelet_peers",
            str(kubelet.settings.plugin_dir.parent),
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        await kubelet.allocatable(RESOURCE, equals=4)
        admitting = asyncio.create_task(kubelet.admit(pod("a", 1)), name="admit a")
        await child.stdout.readline()
        child.kill()
        await child.communicate()
        status = await admitting
        await kubelet.allocatable(RESOURCE, equals=0)

        assert rejection(status) == EOF
        assert kubelet.state().streams[0].error == EOF


async def test_a_plugin_that_stops_in_allocate_fails_the_pod_the_same_way() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        plugin.on_allocate = never
        admitting = asyncio.create_task(kubelet.admit(pod("a", 1)), name="admit a")
        await plugin.until_called("Allocate")
        await plugin.stop()

        assert rejection(await admitting) == EOF


async def test_an_allocate_that_hangs_holds_up_every_pod_behind_it_device_or_not() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        gate = asyncio.Event()
        plain = plugin.on_allocate

        async def hang(ids: list[str], context: Context) -> wire.AllocateResponse:
            # No deadline: what a call without one reports.
            assert context.time_remaining() is None
            await gate.wait()
            return await plain(ids, context)

        plugin.on_allocate = hang
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(kubelet.admit(pod("a", 1)), name="admit a")
            second = tasks.create_task(kubelet.admit(pod("cpu")), name="admit cpu")
            await asyncio.sleep(0.05)
            waiting = not first.done() and not second.done()
            seen = [status.uid for status in kubelet.state().pods]
            gate.set()

        assert waiting
        assert seen == ["uid-a"]
        assert second.result().phase is Phase.RUNNING


async def test_a_pod_is_listed_while_it_is_admitted_and_is_the_only_one_without_devices() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()
        lacking: list[list[str]] = []
        plain, prefer = plugin.on_allocate, plugin.on_preferred

        async def look() -> None:
            async with pod_resources(kubelet) as reader:
                listed = await reader.pods()
            lacking.append([p.name for p in listed if not p.containers[0].devices])

        async def allocate(ids: list[str], context: Context) -> wire.AllocateResponse:
            await look()
            return await plain(ids, context)

        async def preferred(
            request: wire.ContainerPreferredAllocationRequest, context: Context
        ) -> list[str]:
            await look()
            return await prefer(request, context)

        plugin.on_allocate, plugin.on_preferred = allocate, preferred
        async with asyncio.TaskGroup() as tasks:
            for name in "abc":
                tasks.create_task(kubelet.admit(pod(name, 1)), name=f"admit {name}")

        assert lacking == [["a"], ["a"], ["b"], ["b"], ["c"], ["c"]]


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
async def test_the_devices_of_a_pod_that_ended_are_free_for_the_next_one(phase: Phase) -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 4))
        ended = await kubelet.finish_pod("uid-a", phase)
        calls = len(plugin.calls)
        following = await kubelet.admit(pod("b", 4))

        assert ended.phase is phase
        assert following.phase is Phase.RUNNING
        assert [method for method, _ in plugin.calls[calls:]] == ["Allocate"]


async def test_the_devices_of_a_deleted_pod_are_free_for_the_next_one() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 4))
        await kubelet.delete_pod("uid-a")
        following = await kubelet.admit(pod("b", 4))

        assert following.phase is Phase.RUNNING
        assert [status.uid for status in kubelet.state().pods] == ["uid-b"]


async def test_a_pod_rejected_at_its_second_container_frees_what_the_first_one_got() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        status = await kubelet.admit(pod("a", containers=(container("x", 3), container("y", 3))))
        following = await kubelet.admit(pod("b", 4))

        assert status.phase is Phase.FAILED
        assert following.phase is Phase.RUNNING


async def test_an_admission_that_is_given_up_leaves_no_pod_and_no_device_behind() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        plain, plugin.on_allocate = plugin.on_allocate, never
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await kubelet.admit(pod("a", 4))
        plugin.on_allocate = plain
        following = await kubelet.admit(pod("a", 4))

        assert following.phase is Phase.RUNNING


async def test_a_uid_is_admitted_once_and_an_unknown_one_is_an_error() -> None:
    async with running_kubelet() as kubelet:
        await kubelet.admit(pod("a"))
        with pytest.raises(UnknownPodError, match="pod uid-a is here already"):
            await kubelet.admit(pod("a"))
        with pytest.raises(UnknownPodError, match="there is no pod uid-b"):
            await kubelet.delete_pod("uid-b")
        with pytest.raises(UnknownPodError, match="pod uid-a has no container x"):
            await kubelet.restart_container("uid-a", "x")


async def test_a_stopped_kubelet_admits_nothing() -> None:
    async with running_kubelet() as kubelet:
        await kubelet.stop()
        with pytest.raises(KubeletStoppedError):
            await kubelet.admit(pod("a"))


async def test_every_call_is_in_the_log_with_its_sizes_and_its_time() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()

        async def slow(ids: list[str], context: Context) -> wire.AllocateResponse:
            await asyncio.sleep(0.05)
            return wire.AllocateResponse(container_responses=[{}])

        plugin.on_allocate = slow
        await kubelet.admit(pod("a", 2))

        log = {rpc.method: rpc for rpc in kubelet.state().rpcs}
        assert log.keys() == {"GetDevicePluginOptions", "Allocate"}
        assert log["Allocate"].request_bytes == 2 + 2 * (2 + len("d-0"))
        assert log["Allocate"].response_bytes == 2
        assert log["Allocate"].seconds >= 0.05
        assert (log["Allocate"].resource, log["Allocate"].error) == (RESOURCE, "")
