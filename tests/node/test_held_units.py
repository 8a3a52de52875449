"""What hangs on who holds units: asked until it is known, and never doubted away."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gpushare_plugin.core.association import ContainerDevices, ListedPod, PodName
from gpushare_plugin.core.card_record import Record, RecordedCard
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.errors import ConfigError, PodResourcesError
from gpushare_plugin.node.held_units import HeldUnits
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, RESOURCE, SECOND, SECOND_TAG
from tests.node.scripted_gpus import gpu
from tests.node.waiting import eventually

RULE = SharingRule(units=UnitRule(unit_mib=1024))


class Listing:
    """A kubelet's account that fails for as long as it has failures."""

    def __init__(self, *pods: ListedPod, failures: Sequence[str] = ()) -> None:
        self.pods = pods
        self.failures = list(failures)
        self.asked = 0
        self.resource = ""

    async def list_pods(self, resource_name: str, *, timeout_seconds: float) -> list[ListedPod]:
        assert timeout_seconds > 0
        self.asked += 1
        self.resource = resource_name
        if self.failures:
            raise PodResourcesError(self.failures.pop(0))
        return list(self.pods)


def card(index: int, uuid: str, tag: str) -> RecordedCard:
    return RecordedCard(index=index, uuid=uuid, tag=tag, units=4, model="Tesla T4")


RECORD = Record(unit_mib=1024, cards=(card(0, FIRST, FIRST_TAG), card(1, SECOND, SECOND_TAG)))


def holder(name: str, *device_ids: str) -> ListedPod:
    container = ContainerDevices(name="c", device_ids=device_ids)
    return ListedPod(pod=PodName(namespace="default", name=name), containers=(container,))


def held_up(units: HeldUnits) -> bool:
    return units.problem is not None


def held(listing: Listing, *, forget_seconds: float = 5.0) -> HeldUnits:
    return HeldUnits(listing, RESOURCE, forget_seconds=forget_seconds)


@asynccontextmanager
async def checking(units: HeldUnits, unit_mib: int) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(units.refuse_another_unit(RECORD, unit_mib=unit_mib))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("record", "unit_mib"), [(None, 512), (RECORD, 1024)])
async def test_the_kubelet_is_not_asked_where_the_unit_is_the_same_or_not_known(
    record: Record | None, unit_mib: int
) -> None:
    listing = Listing(holder("p", f"{FIRST_TAG}-0"))

    await held(listing).refuse_another_unit(record, unit_mib=unit_mib)

    assert listing.asked == 0


async def test_another_unit_is_taken_where_no_pod_holds_any() -> None:
    await held(Listing(holder("p"))).refuse_another_unit(RECORD, unit_mib=512)


async def test_another_unit_is_refused_with_who_holds_units_and_the_cure() -> None:
    pods = [holder(f"p{number}", f"{FIRST_TAG}-{number}") for number in range(5)]

    with pytest.raises(ConfigError) as refused:
        await held(Listing(*pods)).refuse_another_unit(RECORD, unit_mib=512)

    assert str(refused.value) == (
        "memory unit 512MiB: this node shares by GiB, and pods hold such units"
        " (default/p0, default/p1, default/p2); drain the node first, or keep its unit"
    )


async def test_another_unit_waits_while_the_kubelet_does_not_tell_and_each_trouble_is_said_once(
    log: EventLog,
) -> None:
    listing = Listing(holder("p", f"{FIRST_TAG}-0"), failures=["nobody answers"] * 2 + ["too slow"])
    units = held(listing)

    async with checking(units, 512) as task:
        await eventually(lambda: held_up(units))
        assert units.problem == (
            "memory unit 512MiB: this node shares by GiB, and who holds such units is not known:"
            " nobody answers"
        )
        with pytest.raises(ConfigError):
            await task

    assert listing.asked == 4
    assert held_up(units) is False
    assert [line["error"].rpartition(": ")[2] for line in log.of("held_units_unknown")] == [
        "nobody answers",
        "too slow",
    ]


async def test_another_name_is_refused_with_both_names_who_holds_units_and_the_cure() -> None:
    listing = Listing(holder("p", f"{FIRST_TAG}-0"), holder("q"))

    with pytest.raises(ConfigError) as refused:
        await held(listing).refuse_another_name("example.com/vram")

    assert listing.resource == "example.com/vram"
    assert str(refused.value) == (
        f"resource {RESOURCE}: this node served its cards as example.com/vram, and pods hold such"
        " units (default/p); drain the node first, or keep example.com/vram"
    )


async def test_another_name_waits_while_the_kubelet_does_not_tell_and_is_taken_once_none_holds_any(
    log: EventLog,
) -> None:
    units = held(Listing(holder("p"), failures=["nobody answers"]))

    await units.refuse_another_name("example.com/vram")

    assert units.problem is None
    [line] = log.of("held_units_unknown")
    assert line["error"] == (
        f"resource {RESOURCE}: this node served its cards as example.com/vram, and who holds such"
        " units is not known: nobody answers"
    )


async def test_a_card_that_is_gone_for_good_is_forgotten_and_said(log: EventLog) -> None:
    left = await held(Listing(holder("p"))).forget(RECORD, {FIRST}, [gpu(SECOND)], RULE)

    assert [each.uuid for each in left.cards] == [SECOND]
    [line] = log.of("card_forgotten")
    assert (line["card"], line["uuid"]) == ("0", FIRST)


@pytest.mark.parametrize(
    ("named", "shown"),
    [({FIRST}, [FIRST, SECOND]), ({"GPU-of-before"}, [SECOND]), (set(), [])],
    ids=["it is there", "forgotten before", "none named"],
)
async def test_a_name_that_is_left_in_the_settings_does_nothing(
    named: set[str], shown: list[str], log: EventLog
) -> None:
    listing = Listing(holder("p", f"{FIRST_TAG}-0"))

    left = await held(listing).forget(RECORD, named, [gpu(uuid) for uuid in shown], RULE)

    assert (left, listing.asked, log.events) == (RECORD, 0, [])


@pytest.mark.parametrize("device_id", [f"{FIRST_TAG}-0", f"{SECOND_TAG}-1", f"{SECOND}-_-1"])
async def test_a_card_is_kept_while_pods_hold_units_of_it_or_of_one_behind_it(
    device_id: str, log: EventLog
) -> None:
    units = held(Listing(holder("p", device_id)))

    assert await units.forget(RECORD, {FIRST}, [gpu(SECOND)], RULE) == RECORD

    [line] = log.of("card_not_forgotten")
    assert (line["level"], line["cards"]) == ("ERROR", FIRST)
    assert "default/p" in line["reason"]
    assert "drain the node" in line["reason"]


async def test_pods_on_a_card_before_it_do_not_keep_a_card() -> None:
    units = held(Listing(holder("p", f"{FIRST_TAG}-0")))

    left = await units.forget(RECORD, {SECOND}, [gpu(FIRST)], RULE)

    assert [each.uuid for each in left.cards] == [FIRST]


async def test_a_card_is_kept_where_the_kubelet_does_not_tell_and_the_start_goes_on(
    log: EventLog,
) -> None:
    units = held(Listing(failures=["nobody answers"] * 99), forget_seconds=0.3)

    assert await units.forget(RECORD, {FIRST}, [gpu(SECOND)], RULE) == RECORD

    assert units.problem is None
    [line] = log.of("card_not_forgotten")
    assert "nobody answers" in line["reason"]
