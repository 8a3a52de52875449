"""One text to one value, each with its own clear refusal.

Rule: a text that does not parse is an error that says what was expected; it is
never a default. The name of the setting is put before the text by the caller.
"""

import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TypeVar

from gpushare_plugin.core.dialect import check_resource_name, find_dialect
from gpushare_plugin.errors import ConfigError

E = TypeVar("E", bound=Enum)

HIGHEST_PORT = 65_535
LONGEST_NAME = 253

_ADDRESS = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]{1,5})"
)

_TRUE = frozenset({"true", "on", "yes", "1"})
_FALSE = frozenset({"false", "off", "no", "0"})


def switch(text: str) -> bool:
    """Return an on or off."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ConfigError(f"found {text!r}, expected on or off")


def one_of(kind: type[E]) -> Callable[[str], E]:
    """Return a parser of one of the enum's values."""

    def parse(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            words = ", ".join(str(each.value) for each in kind)
            raise ConfigError(f"found {text!r}, expected one of {words}") from None

    return parse


def number(*, least: float, most: float) -> Callable[[str], float]:
    """Return a parser of a number within bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise ConfigError(f"found {text!r}, expected a number from {least:g} to {most:g}")
        return value

    return parse


def whole(*, least: int, most: int) -> Callable[[str], int]:
    """Return a parser of a whole number within bounds."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text) or not least <= int(text) <= most:
            raise ConfigError(f"found {text!r}, expected a whole number from {least} to {most}")
        return int(text)

    return parse


def dialect_name(text: str) -> str:
    """Return the name of a dialect that there is."""
    return find_dialect(text).name


def core_resource(text: str) -> str:
    """Return on, off, or the name that the resource is to have."""
    if "/" in text:
        return check_resource_name(text)
    try:
        return "on" if switch(text) else "off"
    except ConfigError as error:
        raise ConfigError(f"{error}, or a name such as example.com/gpu-core") from None


def namespaced_name(text: str) -> tuple[str, str]:
    """Return a namespace and a name in it, both as Kubernetes has them."""
    namespace, slash, name = text.partition("/")
    label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    if not slash or not re.fullmatch(label, namespace) or not _is_subdomain(name):
        raise ConfigError(f"found {text!r}, expected namespace/name, such as kube-system/gpushare")
    return namespace, name


def kubernetes_name(text: str) -> str:
    """Return a name as Kubernetes has them: of a namespace or a pod."""
    if not _is_subdomain(text):
        raise ConfigError(f"found {text!r}, expected a name of lower-case letters, digits, - or .")
    return text


def _is_subdomain(name: str) -> bool:
    return len(name) <= LONGEST_NAME and bool(re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name))


def xids(text: str) -> frozenset[int]:
    """Return a comma list of XID numbers; empty for none."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if not re.fullmatch(r"[0-9]{1,10}", word)]
    if wrong:
        raise ConfigError(f"found {wrong[0]!r}, expected XID numbers with commas, such as 13,31")
    return frozenset(int(word) for word in words)


def xids_or_none(text: str) -> frozenset[int]:
    """Return a comma list of XID numbers; `none` for an empty list."""
    return frozenset() if text.strip() == "none" else xids(text)


def card_uuids(text: str) -> frozenset[str]:
    """Return a comma list of UUIDs of GPUs and MIG instances; empty for none."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if not re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/-]+", word)]
    if wrong:
        raise ConfigError(f"found {wrong[0]!r}, expected UUIDs with commas, such as GPU-…,MIG-…")
    return frozenset(words)


def absolute_path(text: str) -> Path:
    """Return a path that does not depend on where the daemon was started."""
    path = Path(text)
    if not path.is_absolute():
        raise ConfigError(f"found {text!r}, expected an absolute path")
    return path


def absolute_paths(text: str) -> tuple[Path, ...]:
    """Return a comma list of absolute paths."""
    return tuple(absolute_path(word.strip()) for word in text.split(",") if word.strip())


def serving_address(text: str) -> tuple[str, int]:
    """Return host and port of what must be served; an empty host is every address."""
    address = None if text == "off" else listen_address(text)
    if address is None:
        raise ConfigError(f"found {text!r}, expected host:port, [IPv6]:port or :port")
    return address


def listen_address(text: str) -> tuple[str, int] | None:
    """Return host and port; an empty host is every address; None for off."""
    if text == "off":
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > HIGHEST_PORT:
        raise ConfigError(f"found {text!r}, expected host:port, [IPv6]:port, :port or off")
    return match["ipv6"] or match["host"], int(match["port"])
