"""Kubernetes quantities, as whole numbers.

Rule: exact, rounded up as Kubernetes rounds a count, never through a float; a text
that is no quantity is an error, never 0.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

from gpushare_plugin.errors import QuantityError

_QUANTITY = re.compile(
    r"(?P<number>[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))"
    r"((?P<suffix>n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)

_LONGEST = 64
"""More than any amount needs; Python itself reads no number of thousands of digits."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_SCALES: Mapping[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(10) ** power for suffix, power in _DECIMAL.items()},
    **{suffix: Fraction(2) ** power for suffix, power in _BINARY.items()},
}


def parse_quantity(text: str) -> int:
    """Return the quantity, rounded up to a whole number.

    Raises:
        QuantityError: it is no quantity, or below 0.
    """
    if len(text) > _LONGEST:
        raise QuantityError(
            f"quantity {text[:_LONGEST]!r}…: expected at most {_LONGEST} characters"
        )
    if text.isascii() and text.isdecimal():
        # Nearly all counts are written so, and fractions are slow.
        return int(text)
    match = _QUANTITY.fullmatch(text)
    if match is None or text.startswith("-"):
        raise QuantityError(
            f"quantity {text!r}: expected a number that is not below 0, such as 4, 4k or 4Ki"
        )
    scale = _SCALES[match["suffix"] or ""]
    if match["exponent"] is not None:
        scale = Fraction(10) ** int(match["exponent"])
    number = Fraction(match["number"]) * scale
    return -(-number.numerator // number.denominator)
