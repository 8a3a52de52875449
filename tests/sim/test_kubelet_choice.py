"""Which devices the kubelet chooses, and when it asks the plugin which it would like."""

import grpc

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet import ContainerSpec, Phase
from gpushare_plugin.sim.kubelet.devices import Device
from gpushare_plugin.sim.kubelet.topology import Demand, affinity
from tests.sim.kubelet_peers import RESOURCE, Context, TinyPlugin, devices, pod, running_kubelet

Request = wire.ContainerPreferredAllocationRequest


def container(name: str, units: int, *, restartable: bool = False) -> ContainerSpec:
    return ContainerSpec(name=name, requests={RESOURCE: units}, restartable=restartable)


async def test_the_plugin_is_not_asked_unless_its_options_say_so() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 2))

        assert plugin.called("GetPreferredAllocation") == []


async def test_the_plugin_is_asked_with_every_free_device_in_random_order() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 2))
        await kubelet.admit(pod("b", 3))

        first, second = plugin.called("GetPreferredAllocation")
        assert sorted(first.available_deviceIDs) == [f"d-{n}" for n in range(9)]
        assert list(first.available_deviceIDs) != sorted(first.available_deviceIDs)
        assert sorted(second.available_deviceIDs) == [f"d-{n}" for n in range(2, 9)]
        assert list(second.must_include_deviceIDs) == []
        assert second.allocation_size == 3


async def test_what_the_plugin_prefers_is_what_it_is_asked_to_allocate() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 3))

        (ids,) = plugin.called("Allocate")
        assert sorted(ids) == ["d-0", "d-1", "d-2"]


async def test_the_plugin_is_asked_even_where_there_is_no_choice() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4), prefer=True) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 4))

        assert len(plugin.called("GetPreferredAllocation")) == 1


async def test_a_hint_is_a_hint_unknown_ids_are_passed_over_and_missing_ones_filled_in() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()

        async def hint(request: Request, context: Context) -> list[str]:
            return ["nonsense", "d-7"]

        plugin.on_preferred = hint
        await kubelet.admit(pod("a", 3))

        (ids,) = plugin.called("Allocate")
        assert len(set(ids)) == 3
        assert "d-7" in ids
        assert "nonsense" not in ids


async def test_of_a_hint_that_is_too_long_only_as_many_are_taken_as_were_asked_for() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()

        async def hint(request: Request, context: Context) -> list[str]:
            return ["d-1", "d-2", "d-3", "d-4"]

        plugin.on_preferred = hint
        await kubelet.admit(pod("a", 2))

        (ids,) = plugin.called("Allocate")
        assert len(ids) == 2
        assert {*ids} < {"d-1", "d-2", "d-3", "d-4"}


async def test_an_error_from_get_preferred_allocation_fails_the_pod_and_leaks_nothing() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4), prefer=True) as plugin:
        await plugin.come_up()

        async def fail(request: Request, context: Context) -> list[str]:
            await context.abort(grpc.StatusCode.INTERNAL, "no idea")
            raise AssertionError

        plugin.on_preferred = fail
        status = await kubelet.admit(pod("a", 2))

        assert (status.phase, status.reason) == (Phase.FAILED, "UnexpectedAdmissionError")
        assert (
            "GetPreferredAllocation rpc failed with err: rpc error: code = Internal desc = no idea"
        ) in status.message
        assert plugin.called("Allocate") == []
        assert kubelet.state().resources[RESOURCE].allocated == ()


# ------------------------------------------------------------------------ init containers


async def test_devices_of_an_init_container_are_used_again_without_a_question() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()
        init, main = (container("i", 4),), (container("x", 3), container("y", 1))
        await kubelet.admit(pod("a", containers=main, init_containers=init))

        of_init, of_x, of_y = plugin.called("Allocate")
        assert len(plugin.called("GetPreferredAllocation")) == 1
        assert {*of_x} < {*of_init}
        assert {*of_x, *of_y} == {*of_init}
        assert len(kubelet.state().resources[RESOURCE].allocated) == 4


async def test_reused_devices_that_do_not_suffice_must_be_included_and_are_counted() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9), prefer=True) as plugin:
        await plugin.come_up()
        init, main = (container("i", 2),), (container("x", 4),)
        await kubelet.admit(pod("a", containers=main, init_containers=init))

        of_init, of_x = plugin.called("Allocate")
        _, asked = plugin.called("GetPreferredAllocation")
        assert sorted(asked.must_include_deviceIDs) == sorted(of_init)
        assert asked.allocation_size == 4
        assert len(asked.available_deviceIDs) == 9
        assert {*of_init} < {*of_x}
        assert len(of_x) == 4


async def test_a_sidecar_keeps_its_devices_and_may_use_those_of_an_init_container() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(9)) as plugin:
        await plugin.come_up()
        init = (container("i", 3), container("sidecar", 2, restartable=True))
        await kubelet.admit(pod("a", containers=(container("x", 2),), init_containers=init))

        of_init, of_sidecar, of_x = plugin.called("Allocate")
        assert {*of_sidecar} < {*of_init}
        assert not {*of_sidecar} & {*of_x}
        assert {*of_init} - {*of_sidecar} < {*of_x}


async def test_one_pods_init_devices_are_not_reusable_for_another_pod() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(
            pod("a", containers=(container("x", 1),), init_containers=(container("i", 3),))
        )
        status = await kubelet.admit(pod("b", 2))

        assert status.message.count("Requested: 2, Available: 1") == 1


# ------------------------------------------------------------------------------- topology


def card(name: str, count: int, *, node: int) -> list[wire.Device]:
    topology = wire.TopologyInfo(nodes=[wire.NUMANode(ID=node)])
    return [
        wire.Device(ID=f"{name}-{n}", health="Healthy", topology=topology) for n in range(count)
    ]


THREE_CARDS = [*card("a", 2, node=0), *card("b", 2, node=0), *card("c", 8, node=1)]


async def test_aligned_devices_that_just_suffice_are_taken_over_two_cards_unasked() -> None:
    async with (
        running_kubelet(topology_manager=True) as kubelet,
        TinyPlugin(kubelet, THREE_CARDS, prefer=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("p", 4))

        (ids,) = plugin.called("Allocate")
        assert sorted(ids) == ["a-0", "a-1", "b-0", "b-1"]
        assert plugin.called("GetPreferredAllocation") == []


async def test_of_more_aligned_devices_than_needed_only_those_are_offered() -> None:
    async with (
        running_kubelet(topology_manager=True) as kubelet,
        TinyPlugin(kubelet, THREE_CARDS, prefer=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("p", 3))

        (asked,) = plugin.called("GetPreferredAllocation")
        assert sorted(asked.available_deviceIDs) == ["a-0", "a-1", "b-0", "b-1"]
        assert asked.allocation_size == 3


async def test_a_request_that_fits_one_node_only_goes_there() -> None:
    async with (
        running_kubelet(topology_manager=True) as kubelet,
        TinyPlugin(kubelet, THREE_CARDS, prefer=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("p", 5))

        (asked,) = plugin.called("GetPreferredAllocation")
        assert {i[0] for i in asked.available_deviceIDs} == {"c"}


async def test_a_request_over_both_nodes_is_offered_the_whole_machine() -> None:
    async with (
        running_kubelet(topology_manager=True) as kubelet,
        TinyPlugin(kubelet, THREE_CARDS, prefer=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("p", 9))

        (asked,) = plugin.called("GetPreferredAllocation")
        assert len(asked.available_deviceIDs) == 12


async def test_without_a_topology_manager_or_without_numa_every_free_device_is_offered() -> None:
    for policy, listed in ((False, THREE_CARDS), (True, devices(12))):
        async with (
            running_kubelet(topology_manager=policy) as kubelet,
            TinyPlugin(kubelet, listed, prefer=True) as plugin,
        ):
            await plugin.come_up()
            await kubelet.admit(pod("p", 4))

            (asked,) = plugin.called("GetPreferredAllocation")
            assert len(asked.available_deviceIDs) == 12


def demand(units: int, *, free: str, reusable: str = "") -> Demand:
    """A demand on devices a and e of node 0, b and f of node 1."""
    nodes = {"a": (0,), "b": (1,), "e": (0,), "f": (1,)}
    listed = {name: Device(id=name, healthy=True, numa_nodes=nodes[name]) for name in nodes}
    return Demand(units=units, devices=listed, free=free, reusable=reusable)


def test_two_demands_go_to_the_node_that_suits_both() -> None:
    # Alone the second one would go to node 0, and the first one over both is worse.
    assert affinity([demand(1, free="b"), demand(1, free="aebf")]) == frozenset({1})


def test_a_demand_stays_with_the_nodes_of_the_devices_it_uses_again() -> None:
    assert affinity([demand(1, free="aef", reusable="b")]) == frozenset({1})


def test_a_demand_that_no_set_of_nodes_can_hold_has_no_affinity() -> None:
    assert affinity([demand(5, free="abef")]) is None
