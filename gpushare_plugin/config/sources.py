"""Where a setting's value comes from: the flag, else the environment, else the file.

Rule 1: an empty environment variable is one that is not set (manifests leave such);
so is every empty text of a setting that has no default, as it is printed so.
Rule 2: every error names the setting as it was given: flag, variable or file and key.
Rule 3: an unknown key in the file is an error, an unknown variable is not: the
cluster puts variables of its own there (GPUSHARE_..._SERVICE_HOST).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from gpushare_plugin.config.node import NodeConfig
from gpushare_plugin.config.parsing import xids
from gpushare_plugin.core.dialect import find_dialect
from gpushare_plugin.core.units import parse_unit_mib, unit_text
from gpushare_plugin.errors import ConfigError

NODE_NAME = "NODE_NAME"
"""What the original's manifests call it."""
DISABLE_HEALTH = "DP_DISABLE_HEALTHCHECKS"
"""NVIDIA's device plugin's variable: `all`, `xids`, or more XIDs to pass over."""


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


def settings() -> tuple[Setting, ...]:
    """Return every setting of the node daemon, in the order of `NodeConfig`."""
    return tuple(
        Setting(
            field=each.name,
            meaning=each.metadata["meaning"],
            default=each.metadata["default"],
            read=each.metadata["read"],
        )
        for each in fields(NodeConfig)
    )


def load_node_config(
    flags: Mapping[str, str], environ: Mapping[str, str], *, file: Path | None = None
) -> NodeConfig:
    """Return the configuration.

    Args:
        flags: the flags that were given, by field name.
        environ: the process's environment.
        file: the YAML file, if one was named.

    Raises:
        ConfigError: a value is wrong, or two contradict each other.
    """
    keys = _read_file(file) if file is not None else {}
    values: dict[str, Any] = {}
    for setting in settings():
        for name, text in _given(setting, flags, environ, keys, file):
            if not text and setting.default is None:
                continue
            try:
                values[setting.field] = setting.read(text)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from error
            break
    if "memory_unit" not in values and "dialect" in values:
        values["memory_unit"] = parse_unit_mib(find_dialect(values["dialect"]).default_unit)
    config = _without_disabled_health(NodeConfig(**values), environ)
    config.check()
    return config


def shown(config: NodeConfig) -> dict[str, str]:
    """Return the configuration as texts by file key, as it is printed at start."""
    return {
        setting.key: _shown_value(setting.field, getattr(config, setting.field))
        for setting in settings()
    }


def _given(
    setting: Setting,
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    keys: Mapping[str, str],
    file: Path | None,
) -> Iterator[tuple[str, str]]:
    """Yield where the setting was given, and how, the strongest first."""
    if setting.field in flags:
        yield setting.flag, flags[setting.field]
    if environ.get(setting.variable):
        yield setting.variable, environ[setting.variable]
    if setting.field == "node_name" and environ.get(NODE_NAME):
        yield NODE_NAME, environ[NODE_NAME]
    if setting.key in keys:
        yield f"{file}, key {setting.key}", keys[setting.key]


def _read_file(file: Path) -> dict[str, str]:
    import yaml  # noqa: PLC0415  # 20 ms that a start without a file does not pay

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # a date that is none is a ValueError
        raise ConfigError(f"{file}: is not YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: found {type(content).__name__}, expected keys with values")
    known = [setting.key for setting in settings()]
    for key in content:
        if key not in known:
            raise ConfigError(f"{file}: unknown key {key!r}; the keys are {', '.join(known)}")
    return {key: _text_of(file, key, value) for key, value in content.items() if value is not None}


def _text_of(file: Path, key: str, value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(each, str | int) for each in value):
            return ",".join(str(each) for each in value)
        case _:
            raise ConfigError(f"{file}, key {key}: found {value!r}, expected one value or a list")


def _without_disabled_health(config: NodeConfig, environ: Mapping[str, str]) -> NodeConfig:
    text = environ.get(DISABLE_HEALTH, "").strip().lower()
    if not text:
        return config
    if text == "all":
        return replace(config, health=False)
    if text == "xids":
        return replace(config, only_xids=frozenset())
    try:
        return replace(config, ignore_xids=config.ignore_xids | xids(text))
    except ConfigError as error:
        raise ConfigError(f"{DISABLE_HEALTH}: {error}, or all, or xids") from error


def _shown_value(field: str, value: object) -> str:
    match value:
        case None:
            return "off" if field == "status_address" else ""
        case bool():
            return "on" if value else "off"
        case Enum():
            return str(value.value)
        case frozenset():
            nothing = "none" if field == "only_xids" else ""
            return ",".join(str(each) for each in sorted(value)) or nothing
        case (str(host), int(port)):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case tuple():
            return ",".join(str(each) for each in value)
        case int() if field == "memory_unit":
            return unit_text(value)
        case float():
            return repr(value).removesuffix(".0")
        case _:
            return str(value)
