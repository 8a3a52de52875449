"""Reading of configuration values as strictly as Go's typed decoding does.

Rule: what is wrong is a ValueError that names the field; the caller adds the file.
"""

import re
from collections.abc import Mapping
from typing import Any

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_NONE = frozenset({None, "", "0", "0s", 0})


def only(value: Mapping[str, Any] | None, known: frozenset[str], at: str = "") -> Mapping[str, Any]:
    """Return the value, {} for none; raises ValueError if it has a field that is not known."""
    found = value or {}
    if unknown := sorted(found.keys() - known):
        raise ValueError(f'strict decoding error: unknown field "{at}{unknown[0]}"')
    return found


def seconds(text: object, default: float) -> float:
    """Read a Go duration such as 1m30s; 0 and none are the default. Raises ValueError."""
    if text in _NONE:
        return default
    parts = _DURATION.findall(str(text))
    if "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'time: invalid duration "{text}"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
