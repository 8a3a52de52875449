"""Memory units: what one device that the kubelet counts stands for.

Rule 1: a card's units are its own memory divided by the unit, rounded down,
card by card; no card speaks for another.
Rule 2: a unit is a whole number of MiB.
Rule 3: a text that does not parse is an error, never a default.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from gpushare_plugin.errors import ConfigError

BYTES_PER_MIB = 1 << 20
MIB_PER_GIB = 1024

_UNIT = re.compile(r"(?P<count>[1-9][0-9]{0,6})?(?P<scale>MiB|GiB)")


class UnitsFrom(Enum):
    """Which memory of a card is divided into units."""

    TOTAL = "total"
    """All of it, as the original does."""
    USABLE = "usable"
    """Less what the driver keeps for itself (NVML memory v2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMemory:
    """The memory of one card as NVML tells it.

    `reserved_bytes` is the driver's own share; 0 where NVML cannot tell (memory v1).
    """

    total_bytes: int
    reserved_bytes: int = 0

    @property
    def usable_mib(self) -> int:
        """Whole MiB that containers can really get."""
        return max(0, self.total_bytes - self.reserved_bytes) // BYTES_PER_MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRule:
    """How a card's memory becomes units; the same for all cards of the node."""

    unit_mib: int
    units_from: UnitsFrom = UnitsFrom.TOTAL
    reserve_mib: int = 0
    """Taken off each card on top of what `units_from` takes off."""

    def units(self, memory: CardMemory) -> int:
        """Return the units of one card; 0 if it cannot hold a single one."""
        whole_bytes = memory.total_bytes
        if self.units_from is UnitsFrom.USABLE:
            whole_bytes -= memory.reserved_bytes
        return max(0, whole_bytes // BYTES_PER_MIB - self.reserve_mib) // self.unit_mib


def parse_unit_mib(text: str) -> int:
    """Return the MiB of `GiB`, `MiB`, `<n>MiB` or `<n>GiB`.

    Raises:
        ConfigError: the text is none of these.
    """
    match = _UNIT.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"memory unit: found {text!r}, expected GiB, MiB, or a whole number of them"
            " such as 256MiB or 2GiB"
        )
    scale = MIB_PER_GIB if match["scale"] == "GiB" else 1
    return int(match["count"] or 1) * scale


def unit_text(unit_mib: int) -> str:
    """Return the shortest text that `parse_unit_mib` reads back."""
    count, scale = unit_mib, "MiB"
    if unit_mib % MIB_PER_GIB == 0:
        count, scale = unit_mib // MIB_PER_GIB, "GiB"
    return scale if count == 1 else f"{count}{scale}"


def uniform_units(units: Sequence[int]) -> int:
    """Return what every card advertises when all must look alike: the smallest card's units.

    Cards that hold no unit at all do not count; they are not shared.
    """
    return min((each for each in units if each > 0), default=0)
