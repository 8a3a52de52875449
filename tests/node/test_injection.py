"""How a card gets into a container, by each way of injection."""

from pathlib import Path

import pytest

from gpushare_plugin.adapters import host
from gpushare_plugin.sim.kubelet import ContainerStatus
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, SECOND, SECOND_TAG, node_in, pod, profile_in
from tests.node.plugin_client import ids, plugin_at
from tests.node.waiting import eventually

SWAPPED = f"""\
gpu uuid={FIRST} name="Tesla T4" total_mib=15360 minor=1
gpu uuid={SECOND} name="Tesla T4" total_mib=15360 minor=0
"""


async def _container_of(folder: Path, log: EventLog, **settings: str) -> ContainerStatus:
    async with node_in(folder, log, **settings) as node:
        await node.ready()
        status = await node.kubelet.admit(pod("a", 4))
        return status.container("c0")


async def test_by_default_the_runtime_reads_the_uuid_from_the_environment(
    short_path: Path, log: EventLog
) -> None:
    container = await _container_of(short_path, log)

    assert container.env["NVIDIA_VISIBLE_DEVICES"] == FIRST
    assert "CGPU_DISABLE" not in container.env
    assert (container.cdi_devices, container.device_nodes) == ((), ())


async def test_with_cdi_the_card_is_named_as_a_cdi_device_and_in_an_annotation(
    short_path: Path, log: EventLog
) -> None:
    container = await _container_of(short_path, log, device_injection="cdi")

    name = f"nvidia.com/gpu={FIRST}"
    assert container.cdi_devices == (name,)
    assert dict(container.annotations) == {"cdi.k8s.io/gpushare": name}
    assert container.env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "4"


async def test_b40_with_device_nodes_the_node_is_the_minor_numbers_and_not_the_indexs(
    short_path: Path, log: EventLog
) -> None:
    container = await _container_of(
        short_path,
        log,
        device_injection="device-nodes",
        simulate=profile_in(short_path, SWAPPED),
    )

    first, *rest = container.device_nodes
    assert (first.host_path, first.container_path) == ("/dev/nvidia1", "/dev/nvidia1")
    assert first.permissions == "rw"
    assert container.env["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    # One that is not there would keep the container from ever starting.
    assert [node.host_path for node in rest] == list(host.control_nodes(host.CONTROL_NODES))


async def test_a_device_node_that_is_made_after_our_start_is_given_to_later_containers(
    short_path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, later = short_path / "nvidiactl", short_path / "nvidia-uvm"
    there.touch()
    monkeypatch.setattr(host, "CONTROL_NODES", (str(there), str(later)))
    async with node_in(short_path, log, device_injection="device-nodes") as node:
        await node.ready()
        first = await node.kubelet.admit(pod("a", 1))

        later.touch()
        there.unlink()
        admitted = 0

        async def is_given() -> bool:
            nonlocal admitted
            admitted += 1
            given = await node.kubelet.admit(pod(f"b{admitted}", 1))
            await node.kubelet.delete_pod(f"uid-b{admitted}")
            return _beside_the_card(given.container("c0")) == [str(later)]

        await eventually(is_given)

    assert _beside_the_card(first.container("c0")) == [str(there)]


def _beside_the_card(container: ContainerStatus) -> list[str]:
    return [node.host_path for node in container.device_nodes[1:]]


async def test_b39_a_card_without_a_minor_number_is_served_by_uuid(
    short_path: Path, log: EventLog
) -> None:
    profile = profile_in(
        short_path, f'gpu uuid={FIRST} name="Tesla T4" total_mib=15360 minor=unsupported'
    )
    async with node_in(short_path, log, simulate=profile) as node:
        await node.ready(units=15)

        status = await node.kubelet.admit(pod("a", 4))

    assert status.container("c0").env["NVIDIA_VISIBLE_DEVICES"] == FIRST


async def test_b39_a_card_without_a_minor_number_is_left_out_where_nodes_are_given(
    short_path: Path, log: EventLog
) -> None:
    profile = profile_in(short_path, SWAPPED.replace("minor=1", "minor=unsupported"))
    async with node_in(short_path, log, simulate=profile, device_injection="device-nodes") as node:
        await node.ready(units=15)

        [line] = log.of("gpu_left_out", gpu=FIRST)

    assert "--device-injection envvar or cdi" in line["reason"]


async def test_cgpu_is_told_to_keep_away_where_that_is_asked_for(
    short_path: Path, log: EventLog
) -> None:
    container = await _container_of(short_path, log, cgpu_disable="on")

    assert container.env["CGPU_DISABLE"] == "true"


async def test_visible_devices_can_name_the_index_of_nvml(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, visible_devices="index") as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            [answer] = await plugin.allocate(ids(SECOND_TAG, 0))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "1"


async def test_b40_a_card_keeps_its_index_and_ids_while_others_come_and_go(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        node.gpus.remove(0)
        await node.ready(units=15)

        # NVML counts it as 0 now; it is our card 1 as before.
        status = await node.kubelet.admit(pod("a", 2))

    container = status.container("c0")
    assert container.env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert container.env["NVIDIA_VISIBLE_DEVICES"] == SECOND


@pytest.mark.parametrize("injection", ["envvar", "cdi"])
async def test_a_mig_instance_is_a_card_by_its_own_uuid(
    short_path: Path, log: EventLog, injection: str
) -> None:
    async with node_in(
        short_path, log, simulate="mig", mig="shared", device_injection=injection
    ) as node:
        await node.ready(units=39 + 19 + 9 + 7 * 9 + 80)

        status = await node.kubelet.admit(pod("a", 19))

    container = status.container("c0")
    uuid = "MIG-530af3c0-cb81-485d-9dd1-238200465544"
    assert container.env["NVIDIA_VISIBLE_DEVICES"] == uuid
    assert container.env["ALIYUN_COM_GPU_MEM_DEV"] == "19"
    assert container.cdi_devices == ((f"nvidia.com/gpu={uuid}",) if injection == "cdi" else ())


async def test_b42_gpus_in_mig_mode_are_left_out_by_default_and_the_others_have_no_gap(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, simulate="mig") as node:
        await node.ready(units=80)

        status = await node.kubelet.admit(pod("a", 1))

    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    assert len(log.of("gpu_left_out")) == 2
