"""The cards of an earlier start: each keeps its place until the operator says that it is gone."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.association import ContainerDevices, ListedPod, PodName
from gpushare_plugin.core.card_record import Record, local_record, parse_record
from gpushare_plugin.core.devices import Card, Gpu
from gpushare_plugin.core.node_record import gpus_annotation, parse_gpus
from gpushare_plugin.core.recall import forgettable, held_by, recall, without
from gpushare_plugin.core.sharing import SharingRule, share
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.errors import UnitError
from tests.core.cards import UUIDS, gpu, gpu_lists

ONE_MIB = SharingRule(units=UnitRule(unit_mib=1))
TWO_MIB = SharingRule(units=UnitRule(unit_mib=2))
A, B, C = UUIDS[0], UUIDS[2], UUIDS[4]
"""Three that don't clash."""


def recorded(cards: Sequence[Card], *, unit_mib: int = 1) -> Record:
    return parse_record(local_record(cards, unit_mib=unit_mib, node_name=""), name="the file")


def record_of(*gpus: Gpu, rule: SharingRule = ONE_MIB) -> Record:
    return recorded(share(gpus, rule).cards, unit_mib=rule.units.unit_mib)


def after_a_start(record: Record, gpus: Sequence[Gpu], rule: SharingRule) -> tuple[Card, ...]:
    return share(gpus, rule, known=recall(record, gpus, rule)).cards


def places(cards: Sequence[Card]) -> list[tuple[int, str, str]]:
    return [(card.index, card.uuid, card.tag) for card in cards]


@given(
    before=gpu_lists(),
    now=gpu_lists(),
    needs_minor=st.booleans(),
    unit_mib=st.integers(1, 2),
)
def test_a_card_keeps_index_and_ids_over_a_start_whatever_came_went_or_moved(
    before: list[Gpu], now: list[Gpu], needs_minor: bool, unit_mib: int
) -> None:
    rule = SharingRule(units=UnitRule(unit_mib=unit_mib), needs_minor=needs_minor)
    known = share(before, rule).cards
    shown = {gpu.uuid for gpu in now}

    cards = after_a_start(recorded(known, unit_mib=unit_mib), now, rule)

    assert places(cards[: len(known)]) == places(known)
    lost = [card for card in known if card.uuid not in shown]
    assert [cards[card.index].units for card in lost] == [card.units for card in lost]
    assert [card.index for card in cards] == list(range(len(cards)))
    assert len({card.tag for card in cards}) == len(cards)
    assert all(card.units > 0 for card in cards)


@given(before=gpu_lists(), late=gpu_lists())
def test_a_tag_that_a_late_card_got_for_a_clash_is_the_same_after_a_start(
    before: list[Gpu], late: list[Gpu]
) -> None:
    known = share(late, ONE_MIB, known=share(before, ONE_MIB).cards).cards
    gpus = [card.gpu for card in known]

    assert places(after_a_start(recorded(known), gpus, ONE_MIB)) == places(known)
    annotation = gpus_annotation(known, resource="aliyun.com/gpu-mem", unit_mib=1, isolation="none")
    assert places(after_a_start(parse_gpus(annotation), gpus, ONE_MIB)) == places(known)


def test_new_cards_come_behind_all_that_are_recorded_the_lost_ones_too() -> None:
    record = record_of(gpu(A), gpu(B))

    cards = after_a_start(record, [gpu(C), gpu(B)], ONE_MIB)

    assert [card.uuid for card in cards] == [A, B, C]


def test_a_lost_card_is_what_the_record_says_and_a_card_that_is_there_what_nvml_shows() -> None:
    record = record_of(gpu(A, 4), gpu(UUIDS[5], 3))

    lost, there = recall(record, [gpu(UUIDS[5], 2, index=7)], ONE_MIB)

    assert (lost.units, lost.gpu.memory, lost.gpu.model) == (4, gpu(A, 4).memory, "Tesla T4")
    assert (there.units, there.gpu.nvml_index) == (2, 7)


def test_a_lost_mig_instance_is_still_one_of_its_gpu() -> None:
    instance = gpu(UUIDS[5])

    [lost] = recall(record_of(instance), [], ONE_MIB)

    assert lost.gpu.mig == instance.mig


def test_a_lost_card_has_the_units_of_another_unit_by_its_memory() -> None:
    of_the_file = record_of(gpu(A, 7, reserved_mib=2))
    of_the_annotation = parse_gpus(
        gpus_annotation(
            share([gpu(A, 7)], ONE_MIB).cards,
            resource="aliyun.com/gpu-mem",
            unit_mib=1,
            isolation="none",
        )
    )

    assert [card.units for card in recall(of_the_file, [], TWO_MIB)] == [3]
    assert [card.units for card in recall(of_the_annotation, [], TWO_MIB)] == [3]


def test_uniform_cards_have_the_smallest_ones_units_though_it_is_lost() -> None:
    uniform = SharingRule(units=UnitRule(unit_mib=1), uniform=True)
    record = record_of(gpu(A, 2), gpu(B, 4), rule=uniform)

    assert [card.units for card in after_a_start(record, [gpu(B, 4)], uniform)] == [2, 2]


def test_a_recorded_card_that_cannot_be_shared_now_keeps_its_place_and_is_told_of() -> None:
    gpus = [gpu(A, 1), gpu(B, 4)]
    known = recall(record_of(*gpus), gpus, TWO_MIB)

    sharing = share(gpus, TWO_MIB, known=known)

    assert [(card.index, card.uuid, card.units) for card in sharing.cards] == [(0, A, 1), (1, B, 2)]
    assert [each.name for each in sharing.left_out] == [A]
    assert "do not hold one unit" in sharing.left_out[0].reason


def test_a_unit_that_makes_too_long_a_list_stops_a_later_start_too() -> None:
    gpus = [gpu(A, 81_920), gpu(B, 81_920)]
    record = record_of(*gpus, rule=TWO_MIB)

    with pytest.raises(UnitError, match="the smallest unit that fits here is 2MiB"):
        recall(record, gpus, ONE_MIB)


def test_only_a_named_card_that_is_not_there_to_be_shared_can_be_forgotten() -> None:
    record = record_of(gpu(A), gpu(B), gpu(C, 1))
    shown = [gpu(B), gpu(C, 1)]

    assert [each.uuid for each in forgettable(record, {A, B, C}, shown, ONE_MIB)] == [A]
    assert [each.uuid for each in forgettable(record, {A, B, C}, shown, TWO_MIB)] == [A, C]
    assert forgettable(record, {"GPU-of-another-node"}, shown, ONE_MIB) == ()


def test_cards_behind_a_forgotten_one_move_up_and_keep_their_ids() -> None:
    record = record_of(gpu(A), gpu(B), gpu(C))
    gone = forgettable(record, {A}, [gpu(B), gpu(C)], ONE_MIB)

    cards = recall(without(record, gone), [gpu(B), gpu(C)], ONE_MIB)

    assert [(card.index, card.uuid, card.tag) for card in cards] == [
        (0, B, record.cards[1].tag),
        (1, C, record.cards[2].tag),
    ]


@pytest.mark.parametrize(
    ("device_id", "holds"),
    [
        ("00000000-3", False),
        ("11111111-3", True),
        ("22222222-0", True),
        (f"{C}-_-1", True),
        (f"{A}-_-1", False),
        ("99999999-1", False),
        ("junk", False),
    ],
)
def test_pods_on_the_card_or_on_one_behind_it_keep_it(device_id: str, holds: bool) -> None:
    record = record_of(gpu(A), gpu(B), gpu(C))
    containers = (
        ContainerDevices(name="a", device_ids=()),
        ContainerDevices(name="b", device_ids=(device_id,)),
    )
    pod = ListedPod(pod=PodName(namespace="default", name="p"), containers=containers)

    held = held_by([pod], record, [record.cards[1]])

    assert held == ((pod.pod,) if holds else ())
