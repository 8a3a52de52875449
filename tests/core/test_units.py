"""Memory units: floors, card by card, and the texts that name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.units import (
    BYTES_PER_MIB,
    CardMemory,
    UnitRule,
    UnitsFrom,
    parse_unit_mib,
    uniform_units,
    unit_text,
)
from gpushare_plugin.errors import ConfigError
from tests.core.cards import memory

small = st.integers(0, 4)
unit_sizes = st.integers(1, 4)


@given(total=small, unit=unit_sizes)
def test_a_card_has_as_many_units_as_fit_whole(total: int, unit: int) -> None:
    units = UnitRule(unit_mib=unit).units(memory(total))

    assert units * unit <= total < (units + 1) * unit


@given(spare_bytes=st.integers(0, BYTES_PER_MIB - 1), total=small)
def test_a_part_of_a_mib_is_no_mib(spare_bytes: int, total: int) -> None:
    with_spare = CardMemory(total_bytes=total * BYTES_PER_MIB + spare_bytes)

    assert UnitRule(unit_mib=1).units(with_spare) == total
    assert with_spare.usable_mib == total


@given(total=small, reserved=small, reserve=small, unit=unit_sizes)
def test_units_from_usable_are_those_of_a_card_without_what_the_driver_keeps(
    total: int, reserved: int, reserve: int, unit: int
) -> None:
    usable = UnitRule(unit_mib=unit, units_from=UnitsFrom.USABLE, reserve_mib=reserve)
    whole = UnitRule(unit_mib=unit, reserve_mib=reserve)

    units = usable.units(memory(total, reserved_mib=reserved))

    assert units == whole.units(memory(max(0, total - reserved)))


@given(total=small, reserved=small, unit=unit_sizes)
def test_units_from_total_do_not_ask_what_the_driver_keeps(
    total: int, reserved: int, unit: int
) -> None:
    rule = UnitRule(unit_mib=unit, units_from=UnitsFrom.TOTAL)

    assert rule.units(memory(total, reserved_mib=reserved)) == rule.units(memory(total))


@given(total=small, reserve=small, unit=unit_sizes)
def test_a_reserve_is_taken_off_before_the_units_are_counted(
    total: int, reserve: int, unit: int
) -> None:
    units = UnitRule(unit_mib=unit, reserve_mib=reserve).units(memory(total))

    assert units == UnitRule(unit_mib=unit).units(memory(max(0, total - reserve)))


@pytest.mark.parametrize("order", [(2002, 11175, 16130), (16130, 11175, 2002)])
def test_b45_each_card_of_a_mixed_node_counts_its_own_memory(order: tuple[int, ...]) -> None:
    rule = UnitRule(unit_mib=parse_unit_mib("GiB"))

    units = {total: rule.units(memory(total)) for total in order}

    assert units == {2002: 1, 11175: 10, 16130: 15}


def test_the_original_numbers_of_a_t4_and_a_4090_are_kept() -> None:
    rule = UnitRule(unit_mib=parse_unit_mib("GiB"))

    assert [rule.units(memory(total)) for total in (16160, 24564)] == [15, 23]


@given(units=st.lists(small, max_size=4))
def test_uniform_cards_show_the_smallest_card_that_holds_anything(units: list[int]) -> None:
    shown = uniform_units(units)

    holding = [each for each in units if each > 0]
    assert shown in (holding or [0])
    assert all(shown <= each for each in holding)


@given(
    unit_mib=st.one_of(unit_sizes, st.sampled_from((256, 512, 1023, 1024, 1536, 2048, 9_999_999)))
)
def test_the_text_of_a_unit_is_read_back(unit_mib: int) -> None:
    assert parse_unit_mib(unit_text(unit_mib)) == unit_mib


@pytest.mark.parametrize(
    ("text", "unit_mib"),
    [("MiB", 1), ("GiB", 1024), ("1MiB", 1), ("256MiB", 256), ("2GiB", 2048), ("1024MiB", 1024)],
)
def test_each_way_to_write_a_unit_is_understood(text: str, unit_mib: int) -> None:
    assert parse_unit_mib(text) == unit_mib


@pytest.mark.parametrize(("unit_mib", "text"), [(1, "MiB"), (1024, "GiB"), (256, "256MiB")])
def test_a_unit_is_written_as_shortly_as_can_be(unit_mib: int, text: str) -> None:
    assert unit_text(unit_mib) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "gib",
        "0MiB",
        "-1GiB",
        "1.5GiB",
        "1 GiB",
        "01GiB",
        " GiB",
        "GiB\n",
        "KiB",
        "4",
        "٣MiB",
    ],
)
def test_a_unit_that_does_not_parse_is_an_error_never_a_default(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_unit_mib(text)

    assert repr(text) in str(caught.value)
    assert "256MiB" in str(caught.value)
