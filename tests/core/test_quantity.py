"""Kubernetes quantities: exact, rounded up, and an error rather than a guess."""

from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.quantity import parse_quantity
from gpushare_plugin.errors import QuantityError

suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
)
FACTORS = {
    "": Decimal(1),
    **{name: Decimal(1000) ** power for power, name in enumerate("num", -3)},
    **{name: Decimal(1000) ** power for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Decimal(1024) ** power for power, name in enumerate("KMGTPE", 1)},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10G", 10_000_000_000),
        ("16Gi", 17_179_869_184),
        ("3k", 3000),
        ("2500m", 3),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("08", 8),
        ("1000000000000", 10**12),
        ("0", 0),
        ("0Gi", 0),
        ("+4", 4),
        (".5", 1),
        ("5.", 5),
        ("1.5Ki", 1536),
        ("1n", 1),
        ("100e-2", 1),
    ],
)
def test_b81_a_quantity_is_read_by_kubernetes_rules(text: str, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "-0",
        "4 ",
        " 4",
        "4\n",
        "4GiB",
        "4K",
        "4ki",
        "4g",
        "0x4",
        "1_000",
        "1,5",
        "1e",
        "1e3k",
        "e3",
        ".",
        "+",
        "--4",
        "NaN",
        "inf",
        "four",
        "٤",
        "1e999",
        "9" * 5000,
    ],
)
def test_b81_what_is_no_quantity_is_an_error_never_0(text: str) -> None:
    with pytest.raises(QuantityError, match="expected"):
        parse_quantity(text)


@given(whole=st.integers(0, 5), thousandths=st.integers(0, 999), suffix=suffixes)
def test_a_quantity_is_exact_and_rounded_up(whole: int, thousandths: int, suffix: str) -> None:
    text = f"{whole}.{thousandths:03d}"

    assert parse_quantity(text + suffix) == ceil(Decimal(text) * FACTORS[suffix])


@given(number=st.integers(0, 2**63))
def test_a_whole_number_is_itself(number: int) -> None:
    assert parse_quantity(str(number)) == number
