"""The values of the simulated peers' verbs as JSON, and back by their type hints.

Rule: what comes back is equal to what went in, for API objects as they are and
for dataclasses of strings, numbers, booleans, paths, enums, optionals, tuples
and mappings by string. What does not fit its hint is a ValueError that names where.
"""

import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def encode(value: Any) -> Any:
    """Return the value as something that `json` can write."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


def decode(hint: Any, value: Any, *, at: str = "value") -> Any:
    """Return the value of that type which `value`, from JSON, stands for."""
    if hint is Any or (hint is NoneType and value is None):
        return value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return _decode_optional(arguments, value, at)
    if origin is tuple and isinstance(value, list):
        return tuple(decode(arguments[0], item, at=f"{at}[{n}]") for n, item in enumerate(value))
    if origin in {Mapping, dict} and isinstance(value, dict):
        return {key: decode(arguments[1], item, at=f"{at}.{key}") for key, item in value.items()}
    if isinstance(hint, type):
        return _decode_plain(hint, value, at)
    raise _misfit(hint, value, at)


def _decode_plain(hint: type, value: Any, at: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return _decode_fields(hint, value, at)
    if issubclass(hint, Enum | Path) and isinstance(value, str):
        return hint(value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is hint:
        return value
    raise _misfit(hint, value, at)


def _decode_optional(choices: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None and NoneType in choices:
        return None
    (hint,) = (choice for choice in choices if choice is not NoneType)
    return decode(hint, value, at=at)


def _decode_fields(kind: type, value: dict[str, Any], at: str) -> Any:
    hints = get_type_hints(kind)
    if unknown := sorted(value.keys() - hints.keys()):
        raise ValueError(f"{at}: no such fields in {kind.__name__}: {', '.join(unknown)}")
    fields = {name: decode(hints[name], item, at=f"{at}.{name}") for name, item in value.items()}
    try:
        return kind(**fields)
    except TypeError as failure:
        raise ValueError(f"{at}: {failure}") from failure


def _misfit(hint: Any, value: Any, at: str) -> ValueError:
    return ValueError(f"{at}: expected {hint}, found {value!r}")
