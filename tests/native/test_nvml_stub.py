"""Opening NVML, finding cards, and what they are, through the real pynvml."""

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile

Open = Callable[[str], EventsFile]

TWO = """
system driver=570.124.06 nvml=12.570.124.06 cuda=12080   # a comment
gpu uuid=GPU-aaaaaaaa-1 name="Tesla T4" total_mib=15360 reserved_mib=449 minor=2 pci=00000000:3B:00.0 numa=1 cc=7.5
gpu uuid=GPU-bbbbbbbb-2 name="NVIDIA L4" total_mib=23034 minor=0 pci=00000000:AF:00.0 virtualization=vgpu
"""  # noqa: E501 - lines of a profile
MIB = 1 << 20


def test_pynvml_reads_the_system_of_the_profile(open_nvml: Open) -> None:
    open_nvml(TWO)

    assert pynvml.nvmlSystemGetDriverVersion() == "570.124.06"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.570.124.06"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12080
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == 12080


def test_pynvml_reads_what_a_card_is(open_nvml: Open) -> None:
    open_nvml(TWO)

    card = pynvml.nvmlDeviceGetHandleByIndex(0)

    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlDeviceGetUUID(card) == "GPU-aaaaaaaa-1"
    assert pynvml.nvmlDeviceGetName(card) == "Tesla T4"
    assert pynvml.nvmlDeviceGetIndex(card) == 0
    assert pynvml.nvmlDeviceGetMinorNumber(card) == 2
    assert pynvml.nvmlDeviceGetNumaNodeId(card) == 1
    assert pynvml.nvmlDeviceGetCudaComputeCapability(card) == (7, 5)
    assert pynvml.nvmlDeviceGetVirtualizationMode(card) == 0
    assert pynvml.nvmlDeviceGetPciInfo(card).busId == "00000000:3B:00.0"
    assert pynvml.nvmlDeviceGetPciInfo(card).busIdLegacy == "0000:3B:00.0"
    assert pynvml.nvmlDeviceGetPciInfo(card).bus == 0x3B


def test_a_card_is_found_by_uuid_and_by_pci_address(open_nvml: Open) -> None:
    open_nvml(TWO)

    by_uuid = pynvml.nvmlDeviceGetHandleByUUID("GPU-bbbbbbbb-2")
    by_long = pynvml.nvmlDeviceGetHandleByPciBusId("00000000:AF:00.0")
    by_short = pynvml.nvmlDeviceGetHandleByPciBusId("0000:af:00.0")

    assert [pynvml.nvmlDeviceGetIndex(card) for card in (by_uuid, by_long, by_short)] == [1, 1, 1]
    assert pynvml.nvmlDeviceGetVirtualizationMode(by_uuid) == 2


def test_a_card_that_is_not_there_is_not_found(open_nvml: Open) -> None:
    open_nvml(TWO)

    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-cccccccc-3")
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByPciBusId("0000:01:00.0")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByPciBusId("nonsense")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(2)


def test_the_new_memory_call_tells_reserved_apart_and_the_old_one_counts_it_as_used(
    open_nvml: Open,
) -> None:
    open_nvml(f"{TWO}process gpu=0 pid=7 used_mib=100\nprocess gpu=0 pid=8 used_mib=unavailable")

    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    new = pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)
    old = pynvml.nvmlDeviceGetMemoryInfo(card)

    assert (new.total, new.reserved, new.used) == (15360 * MIB, 449 * MIB, 100 * MIB)
    assert new.free == (15360 - 449 - 100) * MIB
    assert (old.total, old.used, old.free) == (15360 * MIB, 549 * MIB, new.free)


def test_a_wrong_struct_version_is_refused(open_nvml: Open) -> None:
    open_nvml(TWO)

    with pytest.raises(pynvml.NVMLError) as refused:
        pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0), version=0x01000018)

    assert refused.value.value == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_unified_memory_answers_not_supported_in_both_calls(open_nvml: Open) -> None:
    open_nvml(f'{TWO}gpu uuid=GPU-c name="NVIDIA GB10" memory=unsupported')

    card = pynvml.nvmlDeviceGetHandleByIndex(2)

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryInfo(card)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)


def test_a_card_may_have_no_minor_number_and_no_numa_node(open_nvml: Open) -> None:
    open_nvml("gpu uuid=GPU-a name=A total_mib=1 minor=unsupported")

    card = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMinorNumber(card)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNumaNodeId(card)


def test_the_numa_node_is_told_as_a_number_and_as_a_set(open_nvml: Open) -> None:
    open_nvml("gpu uuid=GPU-a name=A total_mib=1 numa=65\ngpu uuid=GPU-b name=B total_mib=1")
    near, nowhere = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))

    assert pynvml.nvmlDeviceGetNumaNodeId(near) == 65
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(near, 2, 0)) == [0, 2]
    with pytest.raises(pynvml.NVMLError_InsufficientSize):
        pynvml.nvmlDeviceGetMemoryAffinity(near, 1, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryAffinity(nowhere, 1, 0)


def test_processes_never_use_more_than_there_is(open_nvml: Open) -> None:
    open_nvml(f"{TWO}process gpu=0 pid=7 used_mib=99999")

    memory = pynvml.nvmlDeviceGetMemoryInfo(
        pynvml.nvmlDeviceGetHandleByIndex(0), version=pynvml.nvmlMemory_v2
    )

    assert (memory.used, memory.free) == ((15360 - 449) * MIB, 0)


def test_a_name_may_be_bytes_that_are_not_utf_8(open_nvml: Open) -> None:
    open_nvml("gpu uuid=GPU-a bytes_name=f84750 total_mib=1")

    card = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(UnicodeDecodeError, match="0xf8"):
        pynvml.nvmlDeviceGetName(card)
    assert pynvml.nvmlDeviceGetUUID(card) == "GPU-a"


def test_nvml_is_counted_open_and_uninitialized_after_the_last_shutdown(open_nvml: Open) -> None:
    open_nvml(TWO)
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)

    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 2

    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetUUID(card)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlShutdown()


def test_a_symbol_that_the_driver_lacks_raises_function_not_found(open_nvml: Open) -> None:
    open_nvml(f"{TWO}missing nvmlDeviceGetMemoryInfo_v2")

    card = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)
    assert pynvml.nvmlDeviceGetMemoryInfo(card).total == 15360 * MIB


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (9, pynvml.NVMLError_DriverNotLoaded),
        (12, pynvml.NVMLError_LibraryNotFound),
        (18, pynvml.NVMLError_LibRmVersionMismatch),
    ],
)
def test_a_profile_can_say_that_nvml_does_not_open(
    open_nvml: Open, number: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        open_nvml(f"{TWO}init error={number}")


def test_each_listed_call_is_exported_and_known_to_pynvml(
    library: Path, calls: tuple[str, ...]
) -> None:
    stub = ctypes.CDLL(str(library))
    asked_for = Path(pynvml.__file__).read_text()

    assert [name for name in calls if not hasattr(stub, name)] == []
    assert [name for name in calls if f'FunctionPointer("{name}")' not in asked_for] == []


def test_null_and_made_up_arguments_are_refused_by_every_call(
    open_nvml: Open, library: Path, calls: tuple[str, ...]
) -> None:
    open_nvml(TWO)
    stub = ctypes.CDLL(str(library))
    room = ctypes.create_string_buffer(256)
    asked = [name for name in calls if name not in {"nvmlInitWithFlags", "nvmlShutdown"}]
    not_on_handles = ("nvmlSystem", "nvmlEventSet", "nvmlDeviceGetCount", "nvmlDeviceGetHandleBy")
    on_handles = [name for name in asked if not name.startswith(not_on_handles)]

    with_nothing = {name: getattr(stub, name)(None, None, None, None, None) for name in asked}
    made_up = ctypes.c_void_p(0x7EADBEEF0)
    with_rubbish = {name: getattr(stub, name)(made_up, room, room, room) for name in on_handles}

    refused = pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert {name: answer for name, answer in with_nothing.items() if answer != refused} == {}
    assert {name: answer for name, answer in with_rubbish.items() if answer != refused} == {}


def test_a_buffer_that_is_too_small_is_refused_and_not_overrun(
    open_nvml: Open, library: Path
) -> None:
    open_nvml(TWO)
    stub = ctypes.CDLL(str(library))
    small = ctypes.create_string_buffer(b"........")

    answer = stub.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0), small, 8)

    assert answer == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert small.value == b"........"


def test_errors_have_texts(open_nvml: Open) -> None:
    open_nvml(TWO)

    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"
    assert pynvml.nvmlErrorString(4711) == "Unknown Error"


def test_many_threads_may_ask_while_things_happen(open_nvml: Open) -> None:
    events = open_nvml(TWO)
    answers: list[object] = []

    def ask() -> None:
        for _ in range(200):
            card = pynvml.nvmlDeviceGetHandleByUUID("GPU-bbbbbbbb-2")
            answers.append(pynvml.nvmlDeviceGetMemoryInfo(card).total)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(200):
        events.ecc(1, number)
        events.process(0, pid=number, used_mib=1)
    for thread in threads:
        thread.join()

    assert answers == [23034 * MIB] * 1600
    assert pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used == 649 * MIB
