"""Cards that get lost, calls that fail, drivers that change, through the real pynvml."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile

Open = Callable[[str], EventsFile]

THREE = """
gpu uuid=GPU-a name=A total_mib=1000
gpu uuid=GPU-b name=B total_mib=2000
gpu uuid=GPU-c name=C total_mib=3000 ecc=off
"""


def total_mib(index: int) -> int:
    card = pynvml.nvmlDeviceGetHandleByIndex(index)
    return int(pynvml.nvmlDeviceGetMemoryInfo(card).total) >> 20


def test_any_call_on_a_lost_card_says_so_and_its_neighbours_answer(open_nvml: Open) -> None:
    happen = open_nvml(THREE)
    card = pynvml.nvmlDeviceGetHandleByIndex(1)

    happen.lost("GPU-b")

    asking: tuple[Callable[[], object], ...] = (
        lambda: pynvml.nvmlDeviceGetUUID(card),
        lambda: pynvml.nvmlDeviceGetMemoryInfo(card),
        lambda: pynvml.nvmlDeviceGetHandleByIndex(1),
        lambda: pynvml.nvmlDeviceGetHandleByUUID("GPU-b"),
        lambda: pynvml.nvmlDeviceGetTotalEccErrors(card, 1, 0),
    )
    for ask in asking:
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            ask()
    assert pynvml.nvmlDeviceGetCount() == 3
    assert (total_mib(0), total_mib(2)) == (1000, 3000)


def test_a_lost_card_comes_back_under_its_old_handle(open_nvml: Open) -> None:
    happen = open_nvml(THREE)
    card = pynvml.nvmlDeviceGetHandleByIndex(1)

    happen.lost(1)
    happen.back(1)

    assert pynvml.nvmlDeviceGetUUID(card) == "GPU-b"


def test_a_removed_card_is_not_counted_and_those_behind_it_move_up(open_nvml: Open) -> None:
    happen = open_nvml(THREE)
    stale = pynvml.nvmlDeviceGetHandleByIndex(1)

    happen.remove(1)

    assert pynvml.nvmlDeviceGetCount() == 2
    assert (total_mib(0), total_mib(1)) == (1000, 3000)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-b")
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetUUID(stale)


def test_a_removed_card_is_put_in_at_its_old_index_and_a_new_one_last(open_nvml: Open) -> None:
    happen = open_nvml(THREE)

    happen.remove("GPU-b")
    happen.add(uuid="GPU-d", name="A new one", total_mib=4000, pci="0000:0D:00.0")
    happen.add(uuid="GPU-b", name="B", total_mib=2002, pci="0000:0E:00.0")

    assert [total_mib(index) for index in range(4)] == [1000, 2002, 3000, 4000]


def test_ecc_errors_are_counted_where_ecc_is_on(open_nvml: Open) -> None:
    happen = open_nvml(THREE)
    counting, silent = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 2))
    uncorrected = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
    corrected = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC)
    dram, sram = pynvml.NVML_MEMORY_LOCATION_DRAM, pynvml.NVML_MEMORY_LOCATION_SRAM

    happen.ecc(0, 3)

    assert pynvml.nvmlDeviceGetTotalEccErrors(counting, *uncorrected) == 3
    assert pynvml.nvmlDeviceGetTotalEccErrors(counting, *corrected) == 0
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(counting, *uncorrected, dram) == 3
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(counting, *uncorrected, sram) == 0
    assert pynvml.nvmlDeviceGetEccMode(counting) == [1, 1]
    assert pynvml.nvmlDeviceGetEccMode(silent) == [0, 0]
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetTotalEccErrors(silent, *uncorrected)


def test_a_call_fails_for_one_card_until_it_is_healed(open_nvml: Open) -> None:
    happen = open_nvml(THREE)

    happen.fail("nvmlDeviceGetMemoryInfo", 999, gpu=1)
    with pytest.raises(pynvml.NVMLError_Unknown):
        total_mib(1)
    assert total_mib(0) == 1000

    happen.heal("nvmlDeviceGetMemoryInfo", gpu="GPU-b")
    assert total_mib(1) == 2000


def test_healing_a_call_without_a_card_heals_it_for_all(open_nvml: Open) -> None:
    happen = open_nvml(THREE)

    happen.fail("nvmlDeviceGetMemoryInfo", 999, gpu=1)
    happen.fail("nvmlDeviceGetMemoryInfo", 17)
    with pytest.raises(pynvml.NVMLError_OperatingSystem):
        total_mib(0)
    happen.heal("nvmlDeviceGetMemoryInfo")

    assert [total_mib(index) for index in range(3)] == [1000, 2000, 3000]


def test_every_call_can_be_made_to_fail(
    open_nvml: Open, library: Path, calls: tuple[str, ...]
) -> None:
    happen = open_nvml(THREE)
    stub = ctypes.CDLL(str(library))

    for name in calls:
        happen.fail(name, 999)
    answers = {name: getattr(stub, name)(None, None, None, None, None) for name in calls}
    for name in calls:
        happen.heal(name)

    assert answers == dict.fromkeys(calls, 999)
    assert total_mib(0) == 1000


def test_a_failing_lookup_by_uuid_may_concern_one_card(open_nvml: Open) -> None:
    happen = open_nvml(THREE)

    happen.fail("nvmlDeviceGetHandleByUUID", 999, gpu=1)

    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-b")
    assert pynvml.nvmlDeviceGetHandleByUUID("GPU-a")


def test_nvml_that_does_not_open_can_be_mended(configure: Open) -> None:
    happen = configure(THREE)

    happen.break_init(9)
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()
    happen.mend_init()
    pynvml.nvmlInit()

    assert pynvml.nvmlDeviceGetCount() == 3


def test_a_driver_changed_under_the_library_fails_every_call_until_it_fits_again(
    open_nvml: Open,
) -> None:
    happen = open_nvml(THREE)
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    events = pynvml.nvmlEventSetCreate()

    happen.break_init(18)

    asking: tuple[Callable[[], object], ...] = (
        pynvml.nvmlInit,
        pynvml.nvmlDeviceGetCount,
        lambda: pynvml.nvmlDeviceGetMemoryInfo(card),
        lambda: pynvml.nvmlEventSetWait(events, 5000),
    )
    for ask in asking:
        with pytest.raises(pynvml.NVMLError_LibRmVersionMismatch):
            ask()
    happen.mend_init()
    assert total_mib(0) == 1000


def test_another_error_at_init_leaves_what_is_open_alone(open_nvml: Open) -> None:
    happen = open_nvml(THREE)

    happen.break_init(9)

    assert pynvml.nvmlDeviceGetCount() == 3
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()


def test_a_profile_may_begin_with_faults(open_nvml: Open) -> None:
    open_nvml(
        f"{THREE}lost gpu=0\necc gpu=1 uncorrected=2\n"
        "fail call=nvmlDeviceGetMemoryInfo gpu=1 error=999\neventset error=999\n"
    )

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_Unknown):
        total_mib(1)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlEventSetCreate()
