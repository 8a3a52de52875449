"""Event sets, and the events file, through the real pynvml."""

import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile

Open = Callable[[str], EventsFile]

FOUR = """
gpu uuid=GPU-a name=A total_mib=1000 mig=on
gpu uuid=GPU-b name=B total_mib=2000
gpu uuid=GPU-c name=C total_mib=3000 events=unsupported
gpu uuid=GPU-d name=D total_mib=4000 events=unknown
mig gpu=0 uuid=MIG-a-1 gi=3 ci=1 profile_name=1g.5gb total_mib=400
"""
XID = pynvml.nvmlEventTypeXidCriticalError
NOBODY = 0xFFFFFFFF


def listen(*indices: int) -> Any:
    events = pynvml.nvmlEventSetCreate()
    for index in indices:
        card = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceRegisterEvents(card, XID, events)
    return events


def codes(events: Any) -> list[int]:
    """Take all that waits in a set."""
    taken = []
    while True:
        try:
            taken.append(pynvml.nvmlEventSetWait(events, 0).eventData)
        except pynvml.NVMLError_Timeout:
            return taken


def test_an_xid_carries_its_card_and_its_code(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0, 1)

    happen.xid(1, 79)
    event = pynvml.nvmlEventSetWait(heard, 1000)

    assert (event.eventType, event.eventData) == (XID, 79)
    assert pynvml.nvmlDeviceGetUUID(event.device) == "GPU-b"
    assert (event.gpuInstanceId, event.computeInstanceId) == (NOBODY, NOBODY)


def test_an_xid_of_a_mig_instance_carries_its_ids_and_the_card_they_are_on(
    open_nvml: Open,
) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)

    happen.xid("GPU-a", 31, gi=3, ci=1)
    event = pynvml.nvmlEventSetWait(heard, 1000)

    assert (event.gpuInstanceId, event.computeInstanceId) == (3, 1)
    assert pynvml.nvmlDeviceGetUUID(event.device) == "GPU-a"


def test_an_event_without_a_card_has_no_handle(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)

    happen.xid(None, 48)
    event = pynvml.nvmlEventSetWait(heard, 1000)

    assert event.eventData == 48
    assert not event.device


def test_xids_of_any_number_pass_unchanged(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)

    for code in (999, 0, 2**32 - 1):
        happen.xid(0, code)

    assert codes(heard) == [999, 0, 2**32 - 1]


def test_each_set_gets_the_events_of_its_cards_from_registration_on(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    both = listen(0, 1)
    happen.xid(0, 13)
    late = listen(0)
    happen.xid(1, 43)
    happen.xid(0, 45)

    assert codes(both) == [13, 43, 45]
    assert codes(late) == [45]


def test_waiting_ends_when_something_happens(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)
    later = threading.Timer(0.1, lambda: happen.xid(0, 79))

    later.start()
    began = time.monotonic()
    pynvml.nvmlEventSetWait(heard, 10_000)
    waited_seconds = time.monotonic() - began

    # Else it would have been a time-out, which raises.
    assert waited_seconds >= 0.09


def test_waiting_times_out_and_leaves_other_threads_free_meanwhile(open_nvml: Open) -> None:
    open_nvml(FOUR)
    heard = listen(0)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.005):
            ticks.append(time.monotonic())

    ticking = threading.Thread(target=tick)
    ticking.start()
    began = time.monotonic()
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait(heard, 300)
    ended = time.monotonic()
    done.set()
    ticking.join()

    assert ended - began >= 0.29
    assert [at for at in ticks if began < at < ended]


@pytest.mark.parametrize("end", ["shutdown", "free", "break"])
def test_waiting_ends_when_the_set_can_no_longer_be_waited_for(open_nvml: Open, end: str) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)
    ends: dict[str, tuple[Callable[[], object], type[Exception]]] = {
        "shutdown": (pynvml.nvmlShutdown, pynvml.NVMLError_Uninitialized),
        "free": (lambda: pynvml.nvmlEventSetFree(heard), pynvml.NVMLError_InvalidArgument),
        "break": (lambda: happen.break_event_sets(999), pynvml.NVMLError_Unknown),
    }
    act, error = ends[end]

    threading.Timer(0.05, act).start()

    # Else it would be a time-out.
    with pytest.raises(error):
        pynvml.nvmlEventSetWait(heard, 10_000)


def test_a_lost_event_set_answers_errors_until_it_is_mended(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)

    happen.break_event_sets(999)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlEventSetWait(heard, 0)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlEventSetCreate()

    happen.mend_event_sets()
    assert codes(heard) == []
    assert pynvml.nvmlEventSetCreate()


def test_not_supported_and_unknown_are_two_answers_to_registering(open_nvml: Open) -> None:
    open_nvml(FOUR)
    events = pynvml.nvmlEventSetCreate()
    cards = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(4)]

    assert pynvml.nvmlDeviceGetSupportedEventTypes(cards[0]) & XID
    assert pynvml.nvmlDeviceGetSupportedEventTypes(cards[2]) == 0
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(cards[2], XID, events)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceRegisterEvents(cards[3], XID, events)


def test_a_freed_set_is_refused(open_nvml: Open) -> None:
    open_nvml(FOUR)
    events = listen(0)

    pynvml.nvmlEventSetFree(events)

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetWait(events, 0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetFree(events)


def test_sets_can_be_made_and_freed_without_end_but_not_hoarded(open_nvml: Open) -> None:
    open_nvml(FOUR)

    for _ in range(1000):
        pynvml.nvmlEventSetFree(pynvml.nvmlEventSetCreate())
    hoard = (pynvml.nvmlEventSetCreate() for _ in range(1000))
    with pytest.raises(pynvml.NVMLError) as refused:
        list(hoard)

    assert refused.value.value == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES


def test_a_storm_of_events_is_cut_and_the_first_ones_are_kept(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(0)

    for code in range(300):
        happen.xid(0, code)

    assert codes(heard) == list(range(256))
    happen.xid(0, 79)
    assert codes(heard) == [79]


def test_a_card_that_was_replaced_is_not_heard_until_it_is_registered(open_nvml: Open) -> None:
    happen = open_nvml(FOUR)
    heard = listen(1)

    happen.remove("GPU-b")
    happen.add(uuid="GPU-b", name="B", total_mib=2000, pci="0000:0E:00.0")
    happen.xid("GPU-b", 79)
    assert codes(heard) == []

    pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByUUID("GPU-b"), XID, heard)
    happen.xid("GPU-b", 31)
    assert codes(heard) == [31]


def test_waiting_takes_no_processor_time(open_nvml: Open) -> None:
    open_nvml(FOUR)
    heard = listen(0)
    began = time.process_time()

    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait(heard, 500)

    # Processor time, not wall time: a wait that spins would take all of 0.5 s.
    assert time.process_time() - began < 0.25


def test_a_null_set_is_refused(open_nvml: Open, library: Path) -> None:
    open_nvml(FOUR)
    stub = ctypes.CDLL(str(library))
    data = pynvml.c_nvmlEventData_t()

    assert stub.nvmlEventSetWait_v2(None, ctypes.byref(data), 0) == 2
