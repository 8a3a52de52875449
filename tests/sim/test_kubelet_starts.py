"""How containers start and start again, and what they are started with."""

import asyncio

import grpc

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet import (
    BindMount,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    DeviceNode,
    Phase,
    SimKubelet,
)
from tests.sim.kubelet_peers import RESOURCE, Context, TinyPlugin, devices, pod, running_kubelet

CORES = "example.com/gpu-core"


def answering(**fields: object) -> wire.AllocateResponse:
    answer = wire.ContainerAllocateResponse(**fields)  # type: ignore[arg-type]
    return wire.AllocateResponse(container_responses=[answer])


async def container_with(spec: ContainerSpec, answer: wire.AllocateResponse) -> ContainerStatus:
    """Admit one container over a plugin that gives this answer."""
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()

        async def allocate(ids: list[str], context: Context) -> wire.AllocateResponse:
            return answer

        plugin.on_allocate = allocate
        return (await kubelet.admit(pod("a", containers=(spec,)))).container(spec.name)


async def test_everything_that_the_plugin_answered_reaches_the_container() -> None:
    status = await container_with(
        ContainerSpec(name="main", requests={RESOURCE: 1}),
        answering(
            envs={"A": "1"},
            mounts=[wire.Mount(container_path="/in", host_path="/out", read_only=True)],
            devices=[wire.DeviceSpec(container_path="/dev/x", host_path="/dev/y", permissions="r")],
            annotations={"note": "n"},
            cdi_devices=[wire.CDIDevice(name="example.com/gpu=0")],
        ),
    )

    assert status.env == {"A": "1"}
    assert status.mounts == (BindMount(container_path="/in", host_path="/out", read_only=True),)
    assert status.device_nodes == (
        DeviceNode(container_path="/dev/x", host_path="/dev/y", permissions="r"),
    )
    assert status.annotations == {"note": "n"}
    assert status.cdi_devices == ("example.com/gpu=0",)


async def test_the_pods_own_environment_wins_over_the_plugins() -> None:
    status = await container_with(
        ContainerSpec(name="main", requests={RESOURCE: 1}, env={"A": "pod", "C": "pod"}),
        answering(envs={"A": "plugin", "B": "plugin"}),
    )

    assert status.env == {"A": "pod", "B": "plugin", "C": "pod"}


async def test_a_volume_mount_of_the_pod_hides_the_plugins_on_the_same_path() -> None:
    mounts = [wire.Mount(container_path=path, host_path="/out") for path in ("/x", "/y")]
    status = await container_with(
        ContainerSpec(name="main", requests={RESOURCE: 1}, mount_paths=("/x",)),
        answering(mounts=mounts),
    )

    assert [mount.container_path for mount in status.mounts] == ["/y"]


async def test_of_equal_variables_of_two_plugins_either_may_win_but_both_devices_are_there() -> (
    None
):
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(20)) as memory,
        TinyPlugin(kubelet, devices(20, prefix="c"), resource=CORES, endpoint="c.sock") as cores,
    ):
        await memory.come_up()
        await cores.come_up()

        async def from_memory(ids: list[str], context: Context) -> wire.AllocateResponse:
            return answering(envs={"WHO": "memory", "MEMORY": "1"})

        async def from_cores(ids: list[str], context: Context) -> wire.AllocateResponse:
            return answering(envs={"WHO": "cores", "CORES": "1"})

        memory.on_allocate, cores.on_allocate = from_memory, from_cores
        both = ContainerSpec(name="main", requests={RESOURCE: 1, CORES: 1})
        admitted = [await kubelet.admit(pod(f"p{n}", containers=(both,))) for n in range(12)]

        mains = [status.container("main") for status in admitted]
        assert {main.env["WHO"] for main in mains} == {"memory", "cores"}
        assert all(main.env.keys() == {"WHO", "MEMORY", "CORES"} for main in mains)
        assert all(main.devices.keys() == {RESOURCE, CORES} for main in mains)


# ---------------------------------------------------------------------- PreStartContainer


async def test_pre_start_is_not_called_unless_the_options_ask_for_it() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 1))

        assert plugin.called("PreStartContainer") == []


async def test_pre_start_is_called_at_every_start_of_every_container_with_its_devices() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(9), pre_start=True) as plugin,
    ):
        await plugin.come_up()
        init = ContainerSpec(name="init", requests={RESOURCE: 2})
        await kubelet.admit(pod("a", 3, init_containers=(init,)))
        again = await kubelet.restart_container("uid-a", "main")

        of_init, of_main = plugin.called("Allocate")
        calls = [sorted(ids) for ids, _ in plugin.called("PreStartContainer")]
        assert calls == [sorted(of_init), sorted(of_main), sorted(of_main)]
        assert again.restarts == 1


async def test_pre_start_has_a_deadline() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(4), pre_start=True) as plugin,
    ):
        await plugin.come_up()
        remaining: list[float | None] = []

        async def look(ids: list[str], context: Context) -> None:
            remaining.append(context.time_remaining())

        plugin.on_pre_start = look
        await kubelet.admit(pod("a", 1))

        (seconds,) = remaining
        assert seconds is not None
        assert 29 < seconds < 31


async def test_a_container_whose_pre_start_takes_too_long_waits_and_is_tried_again() -> None:
    async with (
        running_kubelet(prestart_seconds=0.1, start_retry_seconds=0.05) as kubelet,
        TinyPlugin(kubelet, devices(4), pre_start=True) as plugin,
    ):
        await plugin.come_up()
        hold = asyncio.Event()

        async def slow(ids: list[str], context: Context) -> None:
            await hold.wait()

        plugin.on_pre_start = slow
        pending = await kubelet.admit(pod("a", 1))
        hold.set()
        status = await kubelet.pod_in_phase("uid-a", Phase.RUNNING)

        main = pending.container("main")
        assert (pending.phase, main.state) == (Phase.PENDING, ContainerState.WAITING)
        assert main.reason == "CreateContainerConfigError"
        assert "code = DeadlineExceeded" in main.message
        assert (status.container("main").reason, status.container("main").message) == ("", "")
        assert len(plugin.called("Allocate")) == 1


async def test_an_init_container_that_cannot_start_holds_up_the_others() -> None:
    async with (
        running_kubelet(start_retry_seconds=60) as kubelet,
        TinyPlugin(kubelet, devices(4), pre_start=True) as plugin,
    ):
        await plugin.come_up()

        async def fail(ids: list[str], context: Context) -> None:
            await context.abort(grpc.StatusCode.INTERNAL, "not yet")

        plugin.on_pre_start = fail
        init = ContainerSpec(name="init", requests={RESOURCE: 1})
        status = await kubelet.admit(pod("a", init_containers=(init,)))

        assert [c.state for c in status.containers] == [ContainerState.WAITING] * 2
        assert [bool(c.reason) for c in status.containers] == [True, False]


async def test_while_its_plugin_is_gone_a_container_with_pre_start_waits_until_it_is_back() -> None:
    async with (
        running_kubelet(start_retry_seconds=0.05) as kubelet,
        TinyPlugin(kubelet, devices(4), pre_start=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("a", 1))
        await plugin.stop()
        await kubelet.allocatable(RESOURCE, equals=0)
        waiting = await kubelet.restart_container("uid-a", "main")
        await plugin.serve()
        await plugin.come_up()
        await kubelet.until(
            lambda: main_state(kubelet) is ContainerState.RUNNING, failure=lambda: "still waiting"
        )

        assert waiting.state is ContainerState.WAITING
        assert "PreStartContainer rpc failed" in waiting.message
        assert f"endpoint {plugin.path} has been stopped" in waiting.message


def main_state(kubelet: SimKubelet) -> ContainerState:
    return kubelet.state().pod("uid-a").container("main").state


async def test_without_pre_start_a_container_restarts_though_its_plugin_is_gone() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        first = await kubelet.admit(pod("a", 2))
        await plugin.stop()
        await kubelet.allocatable(RESOURCE, equals=0)
        again = await kubelet.restart_container("uid-a", "main")

        assert again.state is ContainerState.RUNNING
        assert again.env == first.container("main").env
        assert len(plugin.called("Allocate")) == 1


async def test_a_waiting_container_of_a_deleted_pod_is_not_tried_again() -> None:
    async with (
        running_kubelet(start_retry_seconds=0.02) as kubelet,
        TinyPlugin(kubelet, devices(4), pre_start=True) as plugin,
    ):
        await plugin.come_up()

        async def fail(ids: list[str], context: Context) -> None:
            await context.abort(grpc.StatusCode.INTERNAL, "never")

        plugin.on_pre_start = fail
        await kubelet.admit(pod("a", 1))
        await kubelet.delete_pod("uid-a")
        await asyncio.sleep(0.05)
        calls = len(plugin.calls)
        await asyncio.sleep(0.05)

        assert len(plugin.calls) == calls
