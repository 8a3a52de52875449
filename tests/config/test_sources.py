"""Where a setting's value comes from, and what is said of a wrong one."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare_plugin.config import NodeConfig, Setting, load_node_config, settings, shown
from gpushare_plugin.config.node import Mig
from gpushare_plugin.core.health import Reaction
from gpushare_plugin.core.injection import DeviceInjection, VisibleDevices
from gpushare_plugin.core.units import UnitsFrom
from gpushare_plugin.errors import ConfigError
from tests.config.texts import TEXTS, Texts

SETTINGS = {setting.field: setting for setting in settings()}
WITH_WRONG = [field for field, texts in TEXTS.items() if texts.wrong is not None]


def value(field: str, text: str) -> Any:
    return SETTINGS[field].read(text)


def write(folder: Path, **keys: object) -> Path:
    path = folder / "node.yaml"
    path.write_text(yaml.safe_dump({SETTINGS[field].key: text for field, text in keys.items()}))
    return path


@pytest.fixture(params=TEXTS)
def setting(request: pytest.FixtureRequest) -> Setting:
    return SETTINGS[request.param]


@pytest.fixture
def texts(setting: Setting) -> Texts:
    return TEXTS[setting.field]


def test_every_setting_is_tried_here() -> None:
    assert list(TEXTS) == [each.name for each in fields(NodeConfig)]


# ---------------------------------------------------------------------- precedence


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    setting: Setting, texts: Texts, tmp_path: Path
) -> None:
    flag, variable = {setting.field: texts.one}, {setting.variable: texts.one}
    file = write(tmp_path, **{setting.field: texts.other})

    by_flag = load_node_config(flag, {setting.variable: texts.other}, file=file)
    by_variable = load_node_config({}, variable, file=file)
    by_file = load_node_config({}, {}, file=file)

    one, other = setting.read(texts.one), setting.read(texts.other)
    assert getattr(by_flag, setting.field) == one
    assert getattr(by_variable, setting.field) == one
    assert getattr(by_file, setting.field) == other


def test_one_setting_changes_itself_alone(setting: Setting, texts: Texts) -> None:
    config = load_node_config({setting.field: texts.one}, {})

    of_dialect = {"memory_unit": 256} if setting.field == "dialect" else {}
    changes = {setting.field: setting.read(texts.one), **of_dialect}
    assert config == replace(NodeConfig(), **changes)


def test_the_dialect_brings_its_unit_unless_one_is_given(tmp_path: Path) -> None:
    tencent = {"dialect": "tencent"}

    assert load_node_config(tencent, {}).memory_unit == 256
    assert load_node_config({"dialect": "aliyun"}, {}).memory_unit == 1024
    assert load_node_config(tencent, {"GPUSHARE_MEMORY_UNIT": "GiB"}).memory_unit == 1024
    assert load_node_config(tencent, {}, file=write(tmp_path, memory_unit="MiB")).memory_unit == 1
    assert shown(load_node_config(tencent, {}))["memory-unit"] == "256MiB"


@pytest.mark.parametrize(
    ("text", "resource", "serves"),
    [
        ("off", "tencent.com/vcuda-core", False),
        ("on", "tencent.com/vcuda-core", True),
        ("true", "tencent.com/vcuda-core", True),
        ("example.com/cores", "example.com/cores", True),
    ],
)
def test_the_compute_resource_is_served_by_the_dialects_name_or_another(
    text: str, resource: str, *, serves: bool
) -> None:
    config = load_node_config({"dialect": "tencent", "core_resource": text}, {})

    assert (config.names.core_resource, config.shares_compute) == (resource, serves)


def test_a_default_is_a_text_that_the_setting_takes(setting: Setting) -> None:
    default = getattr(NodeConfig(), setting.field)

    assert default == (None if setting.default is None else setting.read(setting.default))


def test_all_three_names_of_a_setting_are_one_name(setting: Setting) -> None:
    words = setting.field.split("_")

    assert setting.key == "-".join(words)
    assert setting.flag == f"--{'-'.join(words)}"
    assert setting.variable == f"GPUSHARE_{'_'.join(words).upper()}"
    assert setting.meaning


def test_an_empty_variable_is_one_that_is_not_set(setting: Setting) -> None:
    assert load_node_config({}, {setting.variable: ""}) == NodeConfig()


def test_an_empty_text_of_a_setting_without_default_is_none_given(tmp_path: Path) -> None:
    without = [each.field for each in settings() if each.default is None]
    empty = dict.fromkeys(without, "")

    assert load_node_config(empty, {}) == NodeConfig()
    assert load_node_config({}, {}, file=write(tmp_path, **empty)) == NodeConfig()


def test_unknown_variables_are_passed_over_since_the_cluster_sets_some() -> None:
    environ = {"GPUSHARE_SERVICE_HOST": "10.0.0.1", "GPUSHARE_PORT": "tcp://10.0.0.1:80"}

    assert load_node_config({}, environ) == NodeConfig()


# --------------------------------------------------------------------- wrong values


@pytest.mark.parametrize("field", WITH_WRONG)
def test_a_wrong_value_is_told_by_the_name_it_was_given_under(field: str, tmp_path: Path) -> None:
    setting, texts = SETTINGS[field], TEXTS[field]
    file = write(tmp_path, **{field: texts.wrong})
    ways: dict[str, tuple[dict[str, str], dict[str, str], Path | None]] = {
        setting.flag: ({field: str(texts.wrong)}, {}, None),
        setting.variable: ({}, {setting.variable: str(texts.wrong)}, None),
        f"{file}, key {setting.key}": ({}, {}, file),
    }

    for name, (flags, environ, path) in ways.items():
        with pytest.raises(ConfigError) as caught:
            load_node_config(flags, environ, file=path)

        assert str(caught.value).startswith(f"{name}: ")
        assert repr(texts.wrong) in str(caught.value)
        assert texts.expected in str(caught.value)


def test_a_wrong_value_that_a_stronger_source_replaces_does_no_harm() -> None:
    config = load_node_config({"policy": "spread"}, {"GPUSHARE_POLICY": "random"})

    assert config == load_node_config({"policy": "spread"}, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mig": "shared", "visible_devices": "index"}, "--visible-devices uuid"),
        ({"mig": "shared", "device_injection": "device-nodes"}, "envvar or cdi"),
        ({"simulate": "t4-x2", "nvml_library": "/lib/libnvidia-ml.so.1"}, "no --nvml-library"),
        ({"resource_name": "a.com/b", "core_resource": "a.com/b"}, "memory's name too"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_node_config(given, {})


# ----------------------------------------------------------------- what is printed


def test_the_printed_configuration_is_read_back_from_each_source(
    setting: Setting, texts: Texts, tmp_path: Path
) -> None:
    for text in (texts.one, texts.other, setting.default or ""):
        config = load_node_config({setting.field: text}, {})
        printed = shown(config)
        by_field = {each.field: printed[each.key] for each in settings()}
        by_variable = {each.variable: printed[each.key] for each in settings()}

        assert load_node_config(by_field, {}) == config
        assert load_node_config({}, by_variable) == config
        assert load_node_config({}, {}, file=write(tmp_path, **by_field)) == config


def test_the_default_configuration_is_printed_as_the_reference_shows_it() -> None:
    printed = shown(NodeConfig())

    assert {key: text for key, text in printed.items() if key in ("memory-unit", "health")} == {
        "memory-unit": "GiB",
        "health": "on",
    }
    assert printed == {each.key: each.default or "" for each in settings()}


# ------------------------------------------------------------ NVIDIA's own variable


@pytest.mark.parametrize(
    ("text", "health", "ignored", "only"),
    [
        ("all", False, frozenset(), None),
        ("ALL ", False, frozenset(), None),
        ("xids", True, frozenset(), frozenset()),
        ("63, 79", True, frozenset({63, 79}), None),
        (" ", True, frozenset(), None),
    ],
)
def test_nvidias_variable_against_health_checks_is_honoured(
    text: str, ignored: frozenset[int], only: frozenset[int] | None, *, health: bool
) -> None:
    config = load_node_config({}, {"DP_DISABLE_HEALTHCHECKS": text})

    assert (config.health, config.ignore_xids, config.only_xids) == (health, ignored, only)


def test_nvidias_variable_adds_to_the_ignored_xids() -> None:
    config = load_node_config({"ignore_xids": "13"}, {"DP_DISABLE_HEALTHCHECKS": "79"})

    assert config.ignore_xids == {13, 79}


def test_nonsense_in_nvidias_variable_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError) as caught:
        load_node_config({}, {"DP_DISABLE_HEALTHCHECKS": "some"})

    assert str(caught.value).startswith("DP_DISABLE_HEALTHCHECKS: found 'some'")
    assert "or all, or xids" in str(caught.value)


# ------------------------------------------------------------------ what it leads to


def test_the_settings_reach_the_rules_of_the_core() -> None:
    config = load_node_config(
        {
            "memory_unit": "256MiB",
            "units_from": "usable",
            "reserve_mib": "7",
            "uniform_cards": "on",
            "numa_topology": "on",
            "device_injection": "device-nodes",
            "resource_name": "a.com/b",
            "ignore_xids": "79",
        },
        {},
    )

    units = config.sharing.units
    assert (units.unit_mib, units.units_from, units.reserve_mib) == (256, UnitsFrom.USABLE, 7)
    assert config.sharing.uniform
    assert config.sharing.with_numa
    assert config.sharing.needs_minor
    assert config.names.memory_resource == "a.com/b"
    assert config.xid_rule.reaction(79) is Reaction.COUNT


def test_the_default_node_shares_as_the_original_does() -> None:
    config = NodeConfig()

    assert config.names.memory_resource == "aliyun.com/gpu-mem"
    assert (config.mig, config.visible_devices) == (Mig.IGNORE, VisibleDevices.UUID)
    assert config.device_injection is DeviceInjection.ENVVAR
    assert not config.sharing.needs_minor
