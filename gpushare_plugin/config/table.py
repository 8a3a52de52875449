"""The table of settings: what one setting is, whatever daemon it belongs to.

A daemon's configuration is a frozen dataclass whose fields are made by `setting`; flags,
the environment, the file's keys and the reference page are all made from them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


class LogLevel(Enum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, by all its names."""

    field: str
    meaning: str
    default: str | None
    read: Callable[[str], Any]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return self.field.replace("_", "-")

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.key}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"GPUSHARE_{self.field.upper()}"

    @property
    def is_switch(self) -> bool:
        """Whether its flag may stand without a value."""
        return self.default in ("on", "off")


def setting(default: str | None, read: Callable[[str], T], meaning: str) -> T:
    """Return a dataclass field whose default is the text `default`, read as any other text."""
    value = None if default is None else read(default)
    metadata = {"read": read, "meaning": meaning, "default": default}
    return field(default=value, metadata=metadata)  # type: ignore[return-value]


def settings_of(config: "type[DataclassInstance] | DataclassInstance") -> tuple[Setting, ...]:
    """Return every setting of a configuration, in its order."""
    return tuple(
        Setting(
            field=each.name,
            meaning=each.metadata["meaning"],
            default=each.metadata["default"],
            read=each.metadata["read"],
        )
        for each in fields(config)
    )
