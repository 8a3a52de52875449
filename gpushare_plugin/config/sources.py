"""Where a setting's value comes from: the flag, else the environment, else the file.

Rule 1: an empty environment variable is one that is not set (manifests leave such);
so is every empty text of a setting that has no default, as it is printed so.
Rule 2: every error names the setting as it was given: flag, variable or file and key.
Rule 3: an unknown key in the file is an error, an unknown variable is not: the
cluster puts variables of its own there (GPUSHARE_..._SERVICE_HOST).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from gpushare_plugin.config.extender import ExtenderConfig
from gpushare_plugin.config.node import NodeConfig
from gpushare_plugin.config.original_environment import take_over_environment
from gpushare_plugin.config.parsing import xids
from gpushare_plugin.config.table import Setting, settings_of
from gpushare_plugin.core.dialect import find_dialect
from gpushare_plugin.core.units import parse_unit_mib, unit_text
from gpushare_plugin.errors import ConfigError

NODE_NAME = "NODE_NAME"
"""What the original's manifests call it."""
POD_NAME = "POD_NAME"
POD_NAMESPACE = "POD_NAMESPACE"
"""What manifests of all kinds call what the downward API tells a pod of itself."""
DISABLE_HEALTH = "DP_DISABLE_HEALTHCHECKS"
"""NVIDIA's device plugin's variable: `all`, `xids`, or more XIDs to pass over."""


Names = Mapping[str, tuple[str, str]]
"""By field: another variable of the environment that is read too, and its text in our words."""


def settings() -> tuple[Setting, ...]:
    """Return every setting of the node daemon, in the order of `NodeConfig`."""
    return settings_of(NodeConfig)


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
    others = {"node_name": (NODE_NAME, environ.get(NODE_NAME, ""))}
    values = _values(settings(), flags, environ, others, file)
    if "memory_unit" not in values and "dialect" in values:
        values["memory_unit"] = parse_unit_mib(find_dialect(values["dialect"]).default_unit)
    config = _without_disabled_health(NodeConfig(**values), environ)
    config.check()
    return config


def load_extender_config(
    flags: Mapping[str, str], environ: Mapping[str, str], *, file: Path | None = None
) -> ExtenderConfig:
    """Return the extender's configuration; as `load_node_config`.

    Raises:
        ConfigError: a value is wrong, or two contradict each other.
    """
    others = {
        "pod_name": (POD_NAME, environ.get(POD_NAME, "")),
        "pod_namespace": (POD_NAMESPACE, environ.get(POD_NAMESPACE, "")),
        **take_over_environment(environ).settings,
    }
    values = _values(settings_of(ExtenderConfig), flags, environ, others, file)
    config = ExtenderConfig(**values)
    config.check()
    return config


def shown(config: NodeConfig | ExtenderConfig) -> dict[str, str]:
    """Return the configuration as texts by file key, as it is printed at start."""
    return {
        setting.key: _shown_value(setting.field, getattr(config, setting.field))
        for setting in settings_of(config)
    }


def _values(
    known: Sequence[Setting],
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    others: Names,
    file: Path | None,
) -> dict[str, Any]:
    """Return what was given, by field, each from its strongest source."""
    keys = _read_file(file, known) if file is not None else {}
    values: dict[str, Any] = {}
    for setting in known:
        for name, text in _given(setting, flags, environ, others, (file, keys)):
            if not text and setting.default is None:
                continue
            try:
                values[setting.field] = setting.read(text)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from error
            break
    return values


def _given(
    setting: Setting,
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    others: Names,
    filed: tuple[Path | None, Mapping[str, str]],
) -> Iterator[tuple[str, str]]:
    """Yield where the setting was given, and how, the strongest first."""
    if setting.field in flags:
        yield setting.flag, flags[setting.field]
    if environ.get(setting.variable):
        yield setting.variable, environ[setting.variable]
    if setting.field in others and others[setting.field][1]:
        yield others[setting.field]
    file, keys = filed
    if setting.key in keys:
        yield f"{file}, key {setting.key}", keys[setting.key]


def _read_file(file: Path, settings: Sequence[Setting]) -> dict[str, str]:
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
    known = [setting.key for setting in settings]
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
        case (str(namespace), str(name)) if field in ("lease", "scheduler_lease"):
            return f"{namespace}/{name}"
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
