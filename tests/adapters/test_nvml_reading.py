"""What is read of the GPUs, and what one bad GPU does to the others: nothing."""

import pytest

from gpushare_plugin.adapters.nvml.answers import text
from gpushare_plugin.core.devices import Gpu
from gpushare_plugin.core.units import CardMemory
from gpushare_plugin.errors import NvmlUnavailable
from gpushare_plugin.ports import Reading
from gpushare_plugin.sim.gpus import profiles
from tests.adapters.conftest import Machine

MIB = 1 << 20
T4 = "GPU-6f0c3a52-8d1e-4b7a-9c35-2e4f81a7d601"
SYSTEM = "system driver=570.124.06 cuda=12080\n"
A = "gpu uuid=GPU-aaaaaaaa-0000 name=A total_mib=16384 reserved_mib=512 minor=0"
B = "gpu uuid=GPU-bbbbbbbb-0000 name=B total_mib=8192 minor=1"

UNKNOWN = 999
NOT_SUPPORTED = 3
LOST = 15
VERSION_MISMATCH = 18


def node(*lines: str) -> str:
    return SYSTEM + "".join(f"{line}\n" for line in lines)


def uuids(reading: Reading) -> list[str]:
    return [gpu.uuid for gpu in reading.gpus]


def reasons(reading: Reading) -> dict[str, str]:
    return {each.name: each.reason for each in reading.left_out}


# ------------------------------------------------------------------- whole profiles


def test_a_t4_is_read_in_full(machine: Machine) -> None:
    reading = machine.read("t4-x2")

    assert reading.gpus[0] == Gpu(
        uuid=T4,
        nvml_index=0,
        minor_number=0,
        model="Tesla T4",
        pci_address="00000000:3B:00.0",
        numa_node=0,
        memory=CardMemory(total_bytes=15360 * MIB, reserved_bytes=449 * MIB),
    )
    assert (reading.driver_version, reading.cuda_version) == ("570.124.06", "12.8")
    assert not reading.any_mig


@pytest.mark.parametrize("profile", profiles())
def test_every_shipped_profile_is_read_with_no_gpu_unaccounted_for(
    profile: str, machine: Machine
) -> None:
    reading = machine.read(profile)

    assert [gpu.nvml_index for gpu in reading.gpus] == sorted(g.nvml_index for g in reading.gpus)
    assert len(set(uuids(reading))) == len(reading.gpus) > 0
    assert all(gpu.memory.usable_mib > 0 and gpu.model and gpu.uuid for gpu in reading.gpus)
    assert reading.any_mig == bool(reading.left_out) == (profile == "mig")
    assert reading.driver_version
    assert reading.cuda_version.startswith(("12.", "13."))


@pytest.mark.parametrize(
    ("profile", "count", "total_mib"), [("a100-80-x8", 8, 81_920), ("h200-x8", 8, 143_771)]
)
def test_eight_large_cards_lie_on_two_numa_nodes(
    profile: str, count: int, total_mib: int, machine: Machine
) -> None:
    gpus = machine.read(profile).gpus

    assert [gpu.numa_node for gpu in gpus] == [0] * 4 + [1] * 4
    assert {gpu.memory.total_bytes // MIB for gpu in gpus} == {total_mib}
    assert len(gpus) == count


def test_b40_on_a_mixed_node_the_minor_number_is_not_the_index(machine: Machine) -> None:
    gpus = machine.read("mixed").gpus

    assert [(gpu.nvml_index, gpu.minor_number) for gpu in gpus] == [(0, 2), (1, 0), (2, 3), (3, 1)]
    assert [gpu.memory.total_bytes // MIB for gpu in gpus] == [2002, 11175, 16130, 24564]
    assert {gpu.numa_node for gpu in gpus} == {None}


# -------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "trouble",
    [
        "missing nvmlDeviceGetMemoryInfo_v2",
        f"fail call=nvmlDeviceGetMemoryInfo_v2 error={UNKNOWN}",
        f"fail call=nvmlDeviceGetMemoryInfo_v2 error={NOT_SUPPORTED}",
    ],
)
def test_b30_without_memory_v2_the_old_call_tells_the_total(trouble: str, machine: Machine) -> None:
    [gpu] = machine.read(node(A, trouble)).gpus

    assert gpu.memory == CardMemory(total_bytes=16384 * MIB, reserved_bytes=0)


def test_b26_a_gpu_of_unified_memory_is_left_out_with_the_reason(machine: Machine) -> None:
    reading = machine.read(node(f"{A} memory=unsupported", B))

    assert uuids(reading) == ["GPU-bbbbbbbb-0000"]
    assert "unified memory" in reasons(reading)["GPU-aaaaaaaa-0000"]


def test_a_gpu_whose_memory_cannot_be_read_is_left_out(machine: Machine) -> None:
    calls = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")

    reading = machine.read(node(A, B, *(f"fail call={c} gpu=0 error={UNKNOWN}" for c in calls)))

    assert uuids(reading) == ["GPU-bbbbbbbb-0000"]
    assert reasons(reading) == {"GPU-aaaaaaaa-0000": "GPU 0: Unknown Error"}


# ---------------------------------------------------------------- what cannot be told


def test_b29_a_name_that_is_not_text_is_unknown_and_the_gpu_is_shared(machine: Machine) -> None:
    line = "gpu uuid=GPU-aaaaaaaa-0000 bytes_name=f8f8f8 total_mib=16384"

    [gpu] = machine.read(node(line)).gpus

    assert gpu.model == "unknown"


@pytest.mark.parametrize("value", ["Tesla T4", b"Tesla T4"], ids=["str", "bytes"])
def test_b28_text_is_text_whether_the_binding_gives_bytes_or_not(value: str | bytes) -> None:
    assert text(value) == "Tesla T4"


def test_bytes_that_are_not_text_are_told_as_far_as_they_are() -> None:
    assert text(b"T4 \xf8") == "T4 \N{REPLACEMENT CHARACTER}"


def test_b39_a_gpu_without_minor_number_has_none(machine: Machine) -> None:
    [gpu] = machine.read(node(A.replace("minor=0", "minor=unsupported"))).gpus

    assert gpu.minor_number is None


@pytest.mark.parametrize(
    ("call", "field", "value"),
    [
        ("nvmlDeviceGetMemoryAffinity", "numa_node", None),
        ("nvmlDeviceGetPciInfo_v3", "pci_address", ""),
        ("nvmlDeviceGetName", "model", "unknown"),
        ("nvmlDeviceGetMigMode", "mig", None),
        ("nvmlDeviceGetMinorNumber", "minor_number", None),
    ],
)
def test_b48_what_a_driver_does_not_have_is_absent_not_an_error(
    call: str, field: str, value: object, machine: Machine
) -> None:
    reading = machine.read(node(f"{A} numa=1", f"missing {call}"))

    assert uuids(reading) == ["GPU-aaaaaaaa-0000"]
    assert getattr(reading.gpus[0], field) == value


def test_a_numa_node_is_the_cards_own(machine: Machine) -> None:
    reading = machine.read(node(f"{A} numa=63", f"{B} numa=64"))

    assert [gpu.numa_node for gpu in reading.gpus] == [63, None]


@pytest.mark.parametrize(
    "call", ["nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"]
)
def test_a_version_that_is_not_told_is_empty(call: str, machine: Machine) -> None:
    reading = machine.read(node(A, f"missing {call}"))

    assert "" in (reading.driver_version, reading.cuda_version)
    assert len(reading.gpus) == 1


# ----------------------------------------------------------------- lost, gone, coming


def test_a_lost_gpu_is_left_out_by_its_index_and_the_others_go_on(machine: Machine) -> None:
    source = machine.open(node(A, B))
    machine.events.lost(0)

    reading = source.read()

    assert uuids(reading) == ["GPU-bbbbbbbb-0000"]
    assert reasons(reading) == {"NVML index 0": "GPU 0: GPU is lost"}


def test_a_gpu_that_was_lost_is_read_again_once_it_is_back(machine: Machine) -> None:
    source = machine.open(node(A, B))
    machine.events.lost(0)
    source.read()
    machine.events.back(0)

    assert uuids(source.read()) == ["GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"]


def test_b23_a_gpu_that_comes_later_is_read_as_soon_as_it_is_there(machine: Machine) -> None:
    source = machine.open(node(A))
    machine.events.add(uuid="GPU-cccccccc-0000", name="C", total_mib=4096)

    assert uuids(source.read()) == ["GPU-aaaaaaaa-0000", "GPU-cccccccc-0000"]


def test_a_node_without_a_gpu_has_an_empty_reading(machine: Machine) -> None:
    reading = machine.read(SYSTEM)

    assert (reading.gpus, reading.left_out) == ((), ())


def test_b43_a_driver_replaced_under_us_is_no_fault_of_one_gpu(machine: Machine) -> None:
    source = machine.open(node(A, B))
    machine.events.break_init(VERSION_MISMATCH)

    with pytest.raises(NvmlUnavailable, match="reload the driver or reboot the node"):
        source.read()


def test_a_driver_that_counts_no_gpus_is_an_error_that_says_so(machine: Machine) -> None:
    source = machine.open(node(A))
    machine.events.fail("nvmlDeviceGetCount_v2", LOST)

    with pytest.raises(Exception, match="counting the GPUs: GPU is lost"):
        source.read()
