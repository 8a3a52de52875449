"""GPUs in MIG mode: left out, or each instance a GPU of its own."""

import pytest

from gpushare_plugin.core.devices import Gpu, MigInstance
from gpushare_plugin.core.units import CardMemory
from gpushare_plugin.errors import NvmlUnavailable
from gpushare_plugin.ports import Reading
from tests.adapters.conftest import Machine

MIB = 1 << 20
SYSTEM = "system driver=570.124.06 cuda=12080\n"
A = "gpu uuid=GPU-aaaaaaaa-0000 name=A total_mib=16384 reserved_mib=512 minor=0"
B = "gpu uuid=GPU-bbbbbbbb-0000 name=B total_mib=8192 minor=1"

UNKNOWN = 999
VERSION_MISMATCH = 18


def node(*lines: str) -> str:
    return SYSTEM + "".join(f"{line}\n" for line in lines)


def uuids(reading: Reading) -> list[str]:
    return [gpu.uuid for gpu in reading.gpus]


def reasons(reading: Reading) -> dict[str, str]:
    return {each.name: each.reason for each in reading.left_out}


def test_b42_a_gpu_in_mig_mode_is_left_out_unless_its_instances_are_shared(
    machine: Machine,
) -> None:
    reading = machine.read("mig")

    assert uuids(reading) == ["GPU-d5cc122d-cafd-44c8-b344-e4aa46646ca5"]
    assert reading.gpus[0].nvml_index == 2
    assert set(reasons(reading).values()) == {
        "MIG mode is on; --mig shared shares its instances",
    }
    assert reading.any_mig


def test_shared_mig_instances_stand_in_the_place_of_their_gpu(machine: Machine) -> None:
    reading = machine.read("mig", share_mig=True)

    parent = "GPU-b6fcc810-be3b-4f20-b7c2-17bf6650353c"
    assert [gpu.nvml_index for gpu in reading.gpus] == [0] * 3 + [1] * 7 + [2]
    assert reading.left_out == ()
    assert reading.gpus[0] == Gpu(
        uuid="MIG-af238647-a922-4249-b9fc-e608c4d3f831",
        nvml_index=0,
        minor_number=0,
        model="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        pci_address="00000000:07:00.0",
        numa_node=0,
        memory=CardMemory(total_bytes=40192 * MIB),
        mig=MigInstance(parent_uuid=parent, gpu_instance_id=2, compute_instance_id=0),
    )


def test_a_gpu_in_mig_mode_without_an_instance_is_left_out(machine: Machine) -> None:
    reading = machine.read(node(f"{A} mig=on", B), share_mig=True)

    assert uuids(reading) == ["GPU-bbbbbbbb-0000"]
    assert "no MIG instance" in reasons(reading)["GPU-aaaaaaaa-0000"]


def test_another_geometry_is_another_reading(machine: Machine) -> None:
    source = machine.open(node(f"{A} mig=on", B), share_mig=True)
    before = uuids(source.read())

    machine.events.mig(0, uuid="MIG-1", total_mib=4096, gi=1, ci=0, profile_name="1g.5gb")
    cut = uuids(source.read())
    machine.events.mig_mode(0, on=False)
    whole = uuids(source.read())

    assert before == ["GPU-bbbbbbbb-0000"]
    assert cut == ["MIG-1", "GPU-bbbbbbbb-0000"]
    assert whole == ["GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"]


def test_mig_instances_that_tell_no_memory_are_left_out_one_by_one(machine: Machine) -> None:
    instances = [
        f"mig gpu=0 uuid=MIG-{n} gi={n} ci=0 profile_name=1g.5gb total_mib=4096" for n in (1, 2)
    ]
    failing = [
        f"fail call={call} gpu=0 error={UNKNOWN}"
        for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
    ]

    reading = machine.read(node(f"{A} mig=on", B, *instances, *failing), share_mig=True)

    assert uuids(reading) == ["GPU-bbbbbbbb-0000"]
    assert list(reasons(reading)) == ["MIG-1", "MIG-2"]


def test_b43_a_driver_replaced_while_instances_are_read_is_no_fault_of_one(
    machine: Machine,
) -> None:
    one = "mig gpu=0 uuid=MIG-1 gi=1 ci=0 profile_name=1g.5gb total_mib=4096"
    replaced = f"fail call=nvmlDeviceGetGpuInstanceId error={VERSION_MISMATCH}"

    with pytest.raises(NvmlUnavailable, match="reload the driver"):
        machine.read(node(f"{A} mig=on", one, replaced), share_mig=True)
