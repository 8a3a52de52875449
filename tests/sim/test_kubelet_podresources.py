"""What readers of PodResources see."""

import asyncio

import grpc
import pytest
from grpc import aio

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.proto import podresources_v1_pb2 as pod_wire
from gpushare_plugin.sim.kubelet import ContainerSpec, Faults, Phase, PodResourcesShape, SimKubelet
from tests.sim.kubelet_peers import (
    RESOURCE,
    TinyPlugin,
    devices,
    pod,
    pod_resources,
    running_kubelet,
)


async def listed(kubelet: SimKubelet) -> list[pod_wire.PodResources]:
    async with pod_resources(kubelet) as reader:
        return await reader.pods()


async def test_each_device_of_a_container_is_an_entry_of_its_own_in_no_order() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        status = await kubelet.admit(pod("a", 8))
        (seen,) = await listed(kubelet)

        entries = seen.containers[0].devices
        ids = [entry.device_ids[0] for entry in entries]
        assert (seen.namespace, seen.name, seen.containers[0].name) == ("default", "a", "main")
        assert [len(entry.device_ids) for entry in entries] == [1] * 8
        assert {entry.resource_name for entry in entries} == {RESOURCE}
        assert not any(entry.HasField("topology") for entry in entries)
        assert tuple(sorted(ids)) == status.container("main").devices[RESOURCE]
        assert ids != sorted(ids)


async def test_a_kubelet_1_20_writes_all_ids_into_one_entry() -> None:
    async with (
        running_kubelet(podresources_shape=PodResourcesShape.GROUPED) as kubelet,
        TinyPlugin(kubelet, devices(4)) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("a", 3))
        (seen,) = await listed(kubelet)

        assert [len(entry.device_ids) for entry in seen.containers[0].devices] == [3]


async def test_a_devices_numa_node_is_told_where_the_plugin_told_it() -> None:
    topology = wire.TopologyInfo(nodes=[wire.NUMANode(ID=1)])
    device = wire.Device(ID="x", health="Healthy", topology=topology)
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, [device]) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 1))
        await kubelet.restart()
        (seen,) = await listed(kubelet)

        (entry,) = seen.containers[0].devices
        assert [node.ID for node in entry.topology.nodes] == [1]


async def test_containers_without_devices_are_listed_init_containers_only_as_sidecars() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        init = (
            ContainerSpec(name="init", requests={RESOURCE: 1}),
            ContainerSpec(name="sidecar", requests={RESOURCE: 1}, restartable=True),
        )
        main = (ContainerSpec(name="cpu"), ContainerSpec(name="x", requests={RESOURCE: 1}))
        await kubelet.admit(pod("a", init_containers=init, containers=main))
        (seen,) = await listed(kubelet)

        shown = {container.name: len(container.devices) for container in seen.containers}
        assert shown == {"sidecar": 1, "cpu": 0, "x": 1}


async def test_only_active_pods_are_listed_though_the_checkpoint_still_has_ended_ones() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 1))
        await kubelet.admit(pod("b", 1))
        await kubelet.admit(pod("too-big", 5))
        await kubelet.finish_pod("uid-a", Phase.SUCCEEDED)
        names = [seen.name for seen in await listed(kubelet)]
        checkpoint = kubelet.settings.plugin_dir / "kubelet_internal_checkpoint"

        assert names == ["b"]
        assert "uid-a" in checkpoint.read_text()


async def test_kubelets_before_1_34_list_ended_pods_too() -> None:
    async with (
        running_kubelet(list_ended_pods=True) as kubelet,
        TinyPlugin(kubelet, devices(4)) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("a", 1))
        await kubelet.finish_pod("uid-a", Phase.SUCCEEDED)
        before = [(seen.name, len(seen.containers[0].devices)) for seen in await listed(kubelet)]
        await kubelet.admit(pod("b", 1))
        after = [(seen.name, len(seen.containers[0].devices)) for seen in await listed(kubelet)]

        assert before == [("a", 1)]
        assert after == [("a", 0), ("b", 1)]


async def test_get_answers_for_one_pod_and_refuses_an_unknown_one() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 2, namespace="team"))
        async with pod_resources(kubelet) as reader:
            found = await reader.get("team", "a")
            with pytest.raises(aio.AioRpcError, match="pod b in namespace team not found"):
                await reader.get("team", "b")

        assert (found.namespace, found.name, len(found.containers[0].devices)) == ("team", "a", 2)


async def test_what_can_be_given_out_is_told_for_healthy_devices_only() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4, unhealthy=1)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 2))
        async with pod_resources(kubelet) as reader:
            entries = await reader.allocatable()

        assert sorted(entry.device_ids[0] for entry in entries) == ["d-1", "d-2", "d-3"]


async def test_calls_over_the_rate_limit_are_refused() -> None:
    async with running_kubelet() as kubelet, pod_resources(kubelet) as reader:
        outcomes = await asyncio.gather(*(reader.pods() for _ in range(50)), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, aio.AioRpcError)]
        await asyncio.sleep(0.05)
        await reader.pods()

        # The bucket fills while they come, the faster the slower this machine is.
        assert 10 <= len(outcomes) - len(refused) < 50
        assert {failure.code() for failure in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert {failure.details() for failure in refused} == {"rejected by rate limit"}


async def test_the_rate_limit_can_be_changed() -> None:
    async with (
        running_kubelet(list_calls_per_second=1, list_burst_calls=100) as kubelet,
        pod_resources(kubelet) as reader,
    ):
        for _ in range(100):
            await reader.pods()
        with pytest.raises(aio.AioRpcError, match="rejected by rate limit"):
            await reader.pods()


async def test_list_is_slow_where_told_so_and_ends_with_the_kubelet() -> None:
    async with running_kubelet() as kubelet, pod_resources(kubelet) as reader:
        await kubelet.set_faults(Faults(list_seconds=0.05))
        slow = asyncio.create_task(reader.pods(), name="list")
        done, _ = await asyncio.wait([slow], timeout=0.02)
        answered = await slow
        await kubelet.set_faults(Faults(list_seconds=60))
        hung = asyncio.create_task(reader.pods(), name="list")
        await asyncio.sleep(0.02)
        await kubelet.stop()
        with pytest.raises(aio.AioRpcError, match="UNAVAILABLE"):
            await hung

        assert (done, answered) == (set(), [])


async def test_the_service_can_be_unimplemented() -> None:
    async with running_kubelet() as kubelet, pod_resources(kubelet) as reader:
        await kubelet.set_faults(Faults(pod_resources_unimplemented=True))
        with pytest.raises(aio.AioRpcError) as failure:
            await reader.pods()

        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_socket_can_be_absent() -> None:
    async with running_kubelet() as kubelet:
        await kubelet.set_faults(Faults(pod_resources_absent=True))
        await kubelet.restart()
        absent = not kubelet.settings.pod_resources_socket.exists()
        await kubelet.set_faults(Faults())
        await kubelet.restart()

        assert absent
        assert await listed(kubelet) == []
