"""Asking a card how it is, and hearing the driver's events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

import pytest

from gpushare_plugin.errors import GpuLost, NvmlError, NvmlUnavailable
from gpushare_plugin.ports import GpuEvent, Probe
from tests.adapters.conftest import Machine

A, B, INSTANCE = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000", "MIG-1"
NODE = f"""
system driver=570.124.06 cuda=12080
gpu uuid={A} name=A total_mib=16384
gpu uuid={B} name=B total_mib=8192 ecc=unsupported
"""
CUT = f"""
system driver=570.124.06 cuda=12080
gpu uuid={A} name=A total_mib=16384 mig=on
mig gpu=0 uuid={INSTANCE} gi=2 ci=1 profile_name=1g.5gb total_mib=4096
"""
ODD = f"""
system driver=570.124.06 cuda=12080
gpu uuid={A} name=A total_mib=1024 events=unsupported
gpu uuid={B} name=B total_mib=1024 events=unknown
gpu uuid=GPU-cccccccc-0000 name=C total_mib=1024
"""
UNKNOWN = 999
NOT_SUPPORTED = 3
LOST = 15

SOON = 5.0
"""Never waited for: the event is there, or comes at once."""
AT_ONCE = 0.0


@contextmanager
def later(act: Callable[[], None]) -> Iterator[None]:
    """Act from another thread, a little after the block has begun."""
    timer = Timer(0.05, act)
    timer.start()
    yield
    timer.join()


# --------------------------------------------------------------------------- probes


def test_a_probe_tells_the_count_of_uncorrected_errors(machine: Machine) -> None:
    source = machine.open(NODE)
    first = source.probe(A)
    machine.events.ecc(0, 2)

    assert (first, source.probe(A)) == (Probe(uncorrected_ecc=0), Probe(uncorrected_ecc=2))


def test_a_card_that_does_not_count_errors_is_well_without_a_count(machine: Machine) -> None:
    assert machine.open(NODE).probe(B) == Probe(uncorrected_ecc=None)


@pytest.mark.parametrize("error", [UNKNOWN, NOT_SUPPORTED])
def test_an_error_count_that_fails_is_no_count_and_no_fault(error: int, machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.fail("nvmlDeviceGetTotalEccErrors", error)

    assert source.probe(A) == Probe(uncorrected_ecc=None)


def test_a_card_that_is_lost_between_two_questions_of_a_probe_is_lost(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.fail("nvmlDeviceGetTotalEccErrors", LOST)

    with pytest.raises(GpuLost):
        source.probe(A)


def test_b32_a_lost_card_is_told_from_its_healthy_neighbour(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.lost(0)

    with pytest.raises(GpuLost, match=f"card {A}: GPU is lost"):
        source.probe(A)
    assert source.probe(B) == Probe(uncorrected_ecc=None)


def test_a_card_that_is_gone_from_the_list_is_lost(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.remove(0)

    with pytest.raises(GpuLost, match="Not Found"):
        source.probe(A)


def test_a_card_that_is_back_answers(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.lost(0)
    machine.events.back(0)

    assert source.probe(A) == Probe(uncorrected_ecc=0)


def test_a_card_that_answers_with_an_error_is_not_lost(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.fail("nvmlDeviceGetMemoryInfo", UNKNOWN, gpu=0)

    with pytest.raises(NvmlError, match=f"card {A}: Unknown Error") as caught:
        source.probe(A)

    assert not isinstance(caught.value, GpuLost)


def test_a_mig_instance_is_probed_by_its_own_uuid(machine: Machine) -> None:
    source = machine.open(CUT, share_mig=True)
    answer = source.probe(INSTANCE)
    machine.events.unmig(INSTANCE)

    assert answer.uncorrected_ecc in (0, None)
    with pytest.raises(GpuLost):
        source.probe(INSTANCE)


def test_b43_a_driver_replaced_under_us_is_unavailable_not_a_bad_card(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.break_init(18)

    with pytest.raises(NvmlUnavailable):
        source.probe(A)


# --------------------------------------------------------------------------- events


@pytest.mark.parametrize("xid", [79, 999, 2**32 - 1, 0])
def test_b35_an_xid_is_told_with_its_card_whatever_its_number(xid: int, machine: Machine) -> None:
    events = machine.open(NODE).events()
    machine.events.xid(1, xid)

    heard = events.wait(timeout_seconds=SOON)
    events.close()

    assert heard == GpuEvent(uuid=B, xid=xid)


def test_events_are_heard_one_by_one_in_their_order(machine: Machine) -> None:
    events = machine.open(NODE).events()
    machine.events.xid(0, 13)
    machine.events.xid(1, 79)

    heard = [events.wait(timeout_seconds=wait) for wait in (SOON, SOON, AT_ONCE)]
    events.close()

    assert heard == [GpuEvent(uuid=A, xid=13), GpuEvent(uuid=B, xid=79), None]


def test_an_event_that_comes_during_the_wait_is_heard(machine: Machine) -> None:
    events = machine.open(NODE).events()
    with later(lambda: machine.events.xid(0, 79)):
        heard = events.wait(timeout_seconds=SOON)
    events.close()

    assert heard == GpuEvent(uuid=A, xid=79)


def test_silence_is_none(machine: Machine) -> None:
    events = machine.open(NODE).events()

    heard = events.wait(timeout_seconds=AT_ONCE)
    events.close()

    assert heard is None


def test_an_event_of_a_mig_instance_carries_its_ids(machine: Machine) -> None:
    events = machine.open(CUT, share_mig=True).events()
    machine.events.xid(0, 43, gi=2, ci=1)

    heard = events.wait(timeout_seconds=SOON)
    events.close()

    assert heard == GpuEvent(uuid=A, xid=43, gpu_instance_id=2, compute_instance_id=1)


def test_an_event_without_a_card_names_none(machine: Machine) -> None:
    events = machine.open(NODE).events()
    machine.events.xid(None, 48)

    heard = events.wait(timeout_seconds=SOON)
    events.close()

    assert heard == GpuEvent(uuid=None, xid=48)


def test_b36_cards_that_tell_no_events_are_unwatched_and_the_others_are_heard(
    machine: Machine,
) -> None:
    events = machine.open(ODD).events()
    machine.events.xid(2, 79)

    heard = events.wait(timeout_seconds=SOON)
    events.close()

    assert events.unwatched == {A, B}
    assert heard == GpuEvent(uuid="GPU-cccccccc-0000", xid=79)


@pytest.mark.parametrize("call", ["nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"])
def test_a_card_that_cannot_be_registered_is_unwatched(call: str, machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.fail(call, UNKNOWN, gpu=0)

    events = source.events()
    events.close()

    assert events.unwatched == {A}


def test_a_card_that_is_lost_does_not_keep_the_others_from_being_heard(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.lost(0)
    events = source.events()
    machine.events.xid(1, 79)

    heard = events.wait(timeout_seconds=SOON)
    events.close()

    assert heard == GpuEvent(uuid=B, xid=79)


def test_b37_a_lost_event_set_is_an_error_and_another_can_be_made(machine: Machine) -> None:
    source = machine.open(NODE)
    lost = source.events()
    machine.events.break_event_sets(UNKNOWN)
    with pytest.raises(NvmlError, match="waiting for events: Unknown Error"):
        lost.wait(timeout_seconds=SOON)
    lost.close()
    machine.events.mend_event_sets()

    again = source.events()
    machine.events.xid(0, 79)
    heard = again.wait(timeout_seconds=SOON)
    again.close()

    assert heard == GpuEvent(uuid=A, xid=79)


def test_b37_an_event_set_that_cannot_be_made_is_an_error(machine: Machine) -> None:
    source = machine.open(NODE)
    machine.events.break_event_sets(UNKNOWN)

    with pytest.raises(NvmlError, match="making an event set: Unknown Error"):
        source.events()


def test_closing_an_event_set_never_raises(machine: Machine) -> None:
    source = machine.open(NODE)
    events = source.events()
    source.close()

    events.close()
