"""Which GPUs become cards: what a card keeps, and what is left out with a reason."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.devices import MESSAGE_LIMIT_BYTES, Card, Gpu
from gpushare_plugin.core.sharing import (
    MANY_UNITS,
    Sharing,
    SharingRule,
    cards_with_many_units,
    check_message,
    share,
)
from gpushare_plugin.core.units import UnitRule, UnitsFrom, parse_unit_mib
from gpushare_plugin.errors import UnitError
from tests.core.cards import UUIDS, card, gpu, gpu_lists

ONE_MIB = SharingRule(units=UnitRule(unit_mib=1))
GIB = SharingRule(units=UnitRule(unit_mib=1024))

rules = st.builds(
    SharingRule,
    units=st.builds(UnitRule, unit_mib=st.integers(1, 3), reserve_mib=st.integers(0, 1)),
    uniform=st.booleans(),
    needs_minor=st.booleans(),
)


def kept(cards: Sequence[Card]) -> list[tuple[int, str, int, str]]:
    return [(card.index, card.tag, card.units, card.uuid) for card in cards]


def reasons(sharing: Sharing) -> dict[str, str]:
    return {each.name: each.reason for each in sharing.left_out}


@given(gpus=gpu_lists(), rule=rules)
def test_every_gpu_is_a_card_or_left_out_with_a_reason(gpus: list[Gpu], rule: SharingRule) -> None:
    sharing = share(gpus, rule)

    named = [card.uuid for card in sharing.cards] + [each.name for each in sharing.left_out]
    assert sorted(named) == sorted(gpu.uuid for gpu in gpus)
    assert all(each.reason for each in sharing.left_out)


@given(gpus=gpu_lists(), rule=rules)
def test_cards_are_ranked_from_0_without_gaps_in_nvml_order(
    gpus: list[Gpu], rule: SharingRule
) -> None:
    cards = share(gpus, rule).cards

    assert [card.index for card in cards] == list(range(len(cards)))
    assert [card.gpu for card in cards] == [gpu for gpu in gpus if gpu in {c.gpu for c in cards}]
    assert len({card.tag for card in cards}) == len(cards)
    assert all(card.units > 0 for card in cards)


@given(gpus=gpu_lists(), rule=rules)
def test_a_card_has_its_own_units_or_with_uniform_the_smallest_cards(
    gpus: list[Gpu], rule: SharingRule
) -> None:
    cards = share(gpus, rule).cards

    own = {card.index: rule.units.units(card.gpu.memory) for card in cards}
    smallest = min(own.values(), default=0)
    assert {card.index: card.units for card in cards} == (
        dict.fromkeys(own, smallest) if rule.uniform else own
    )


@given(before=gpu_lists(), after=gpu_lists(), rule=rules)
def test_a_known_card_keeps_index_tag_and_units_whatever_comes_goes_or_moves(
    before: list[Gpu], after: list[Gpu], rule: SharingRule
) -> None:
    known = share(before, rule).cards

    cards = share(after, rule, known=known).cards

    assert kept(cards[: len(known)]) == kept(known)
    assert [card.index for card in cards] == list(range(len(cards)))
    assert len({card.tag for card in cards}) == len(cards)


@given(gpus=gpu_lists(), rule=rules)
def test_looking_again_at_the_same_gpus_changes_nothing(gpus: list[Gpu], rule: SharingRule) -> None:
    first = share(gpus, rule)

    assert share(gpus, rule, known=first.cards).cards == first.cards


def test_a_lost_card_keeps_its_index_and_its_units() -> None:
    first, second = gpu(UUIDS[0], 4, index=0), gpu(UUIDS[2], 3, index=1)
    known = share([first, second], ONE_MIB).cards

    cards = share([gpu(UUIDS[2], 3, index=0)], ONE_MIB, known=known).cards

    assert [(card.uuid, card.index, card.units) for card in cards] == [
        (UUIDS[0], 0, 4),
        (UUIDS[2], 1, 3),
    ]
    assert [card.gpu.nvml_index for card in cards] == [0, 0]


def test_b40_a_known_card_takes_the_index_and_minor_number_that_nvml_shows_now() -> None:
    known = share([gpu(UUIDS[0], index=0, minor=2)], ONE_MIB).cards

    [moved] = share([gpu(UUIDS[0], index=3, minor=1)], ONE_MIB, known=known).cards

    assert (moved.gpu.nvml_index, moved.gpu.minor_number) == (3, 1)


def test_a_minor_number_that_nvml_fails_to_tell_just_now_is_the_one_it_told_before() -> None:
    known = share([gpu(UUIDS[0], minor=2)], ONE_MIB).cards

    [again] = share([gpu(UUIDS[0], minor=None)], ONE_MIB, known=known).cards

    assert again.gpu.minor_number == 2


def test_a_card_that_comes_later_is_ranked_behind_the_known_ones() -> None:
    known = share([gpu(UUIDS[2])], ONE_MIB).cards

    cards = share([gpu(UUIDS[0]), gpu(UUIDS[2])], ONE_MIB, known=known).cards

    assert [card.uuid for card in cards] == [UUIDS[2], UUIDS[0]]


def test_a_late_card_with_a_known_ones_digits_gets_a_tag_of_its_own() -> None:
    known = share([gpu(UUIDS[0])], ONE_MIB).cards

    cards = share([gpu(UUIDS[0]), gpu(UUIDS[1])], ONE_MIB, known=known).cards

    assert cards[0].tag == "00000000"
    assert cards[1].tag != "00000000"


def test_a_late_card_whose_digits_are_a_known_ones_tag_gets_another() -> None:
    known = share([gpu(UUIDS[0]), gpu(UUIDS[1])], ONE_MIB).cards
    late = gpu(f"GPU-{known[0].tag}-0000")

    cards = share([late], ONE_MIB, known=known).cards

    assert kept(cards[:2]) == kept(known)
    assert cards[2].tag not in {known[0].tag, known[1].tag}


def test_b45_a_gpu_below_one_unit_is_left_out_and_its_neighbours_go_on() -> None:
    sharing = share([gpu(UUIDS[0], 800), gpu(UUIDS[2], 4096)], GIB)

    assert [(card.index, card.units) for card in sharing.cards] == [(0, 4)]
    assert reasons(sharing) == {UUIDS[0]: "its 800 MiB do not hold one unit of GiB"}


def test_b39_a_gpu_without_a_minor_number_is_left_out_only_where_device_nodes_are_given() -> None:
    without = gpu(UUIDS[0], minor=None)
    by_nodes = SharingRule(units=UnitRule(unit_mib=1), needs_minor=True)

    assert share([without], ONE_MIB).left_out == ()
    assert "--device-injection" in reasons(share([without], by_nodes))[UUIDS[0]]


def test_with_uniform_cards_a_late_smaller_card_is_left_out() -> None:
    uniform = SharingRule(units=UnitRule(unit_mib=1), uniform=True)
    known = share([gpu(UUIDS[0], 3)], uniform).cards

    sharing = share([gpu(UUIDS[0], 3), gpu(UUIDS[2], 2)], uniform, known=known)

    assert kept(sharing.cards) == kept(known)
    assert "fewer than the 3 units" in reasons(sharing)[UUIDS[2]]


# ------------------------------------------------------------ what the kubelet takes


def large_cards(*total_mib: int, reserved_mib: int = 0) -> list[Gpu]:
    return [
        gpu(f"GPU-{index:08x}-0000", total, reserved_mib=reserved_mib, index=index)
        for index, total in enumerate(total_mib)
    ]


def smallest_unit_named(error: UnitError) -> int:
    text = str(error).partition("smallest unit that fits here is ")[2]
    return parse_unit_mib(text.split()[0])


@given(
    sizes=st.lists(st.sampled_from((15_360, 81_920, 143_771)), min_size=2, max_size=8),
    units_from=st.sampled_from(UnitsFrom),
    reserve_mib=st.sampled_from((0, 1_000)),
    uniform=st.booleans(),
    with_numa=st.booleans(),
)
def test_the_unit_that_the_error_names_fits_and_one_mib_less_does_not(
    sizes: list[int], units_from: UnitsFrom, reserve_mib: int, *, uniform: bool, with_numa: bool
) -> None:
    gpus = large_cards(*sizes, reserved_mib=586)

    def rule(unit_mib: int) -> SharingRule:
        units = UnitRule(unit_mib=unit_mib, units_from=units_from, reserve_mib=reserve_mib)
        return SharingRule(units=units, uniform=uniform, with_numa=with_numa)

    unit_mib = 1
    try:
        share(gpus, rule(1))
    except UnitError as error:
        unit_mib = smallest_unit_named(error)
        with pytest.raises(UnitError):
            share(gpus, rule(unit_mib - 1))

    assert len(share(gpus, rule(unit_mib)).cards) == len(gpus)


def test_a_device_list_over_the_limit_stops_the_start_and_says_what_to_do() -> None:
    with pytest.raises(UnitError) as caught:
        share(large_cards(81_920, 81_920), ONE_MIB)

    text = str(caught.value)
    assert "memory unit MiB: 163840 units on 2 cards" in text
    assert str(MESSAGE_LIMIT_BYTES) in text
    assert "2MiB" in text


def test_numa_nodes_count_towards_the_limit() -> None:
    units = 4_194_304 // 30
    fits = SharingRule(units=UnitRule(unit_mib=1))
    with_numa = SharingRule(units=UnitRule(unit_mib=1), with_numa=True)

    check_message([card(units=units)], fits)
    with pytest.raises(UnitError):
        check_message([card(units=units)], with_numa)


def test_late_cards_that_would_not_fit_are_left_out_instead_of_stopping_the_daemon() -> None:
    gpus = large_cards(81_920, 163_840, 100)
    known = share(gpus[:1], ONE_MIB).cards

    sharing = share(gpus, ONE_MIB, known=known)

    assert kept(sharing.cards) == kept(known)
    assert all("larger unit" in reason for reason in reasons(sharing).values())
    assert len(sharing.left_out) == 2


def test_cards_of_so_many_units_that_it_hurts_are_named() -> None:
    few, many = card(0, MANY_UNITS), card(1, MANY_UNITS + 1)

    assert cards_with_many_units([few, many]) == (many,)
