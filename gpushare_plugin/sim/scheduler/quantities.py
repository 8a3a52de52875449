"""Kubernetes quantities as whole thousandths, exact.

Rule: what is finer than a thousandth is rounded up; what is no quantity is a ValueError.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SCALES: Mapping[str, Fraction] = {
    **{suffix: Fraction(10) ** power for suffix, power in _DECIMAL.items()},
    **{suffix: Fraction(2) ** power for suffix, power in _BINARY.items()},
}


def thousandths(value: object) -> int:
    """Return a quantity in thousandths of its unit; raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    text = str(value)
    if text.isascii() and text.isdecimal():
        return int(text) * 1000
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"quantity {text!r}: expected a number such as 4, 500m or 4Gi")
    scale = Fraction(10) ** int(match[3]) if match[3] else _SCALES.get(match[2], Fraction(1))
    amount = Fraction(match[1]) * scale * 1000
    return -(-amount.numerator // amount.denominator)
