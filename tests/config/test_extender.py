"""The extender's settings: where they come from, and which of them go together."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from gpushare_plugin.config import (
    ExtenderConfig,
    Setting,
    load_extender_config,
    settings_of,
    shown,
    take_over_environment,
)
from gpushare_plugin.config.extender import is_loopback
from gpushare_plugin.errors import ConfigError
from tests.config.extender_texts import EXTENDER_TEXTS, NEEDED
from tests.config.texts import Texts

SETTINGS = {setting.field: setting for setting in settings_of(ExtenderConfig)}
WITH_WRONG = [field for field, texts in EXTENDER_TEXTS.items() if texts.wrong is not None]


def write(folder: Path, **keys: str | None) -> Path:
    path = folder / "extender.yaml"
    path.write_text(yaml.safe_dump({SETTINGS[field].key: text for field, text in keys.items()}))
    return path


@pytest.fixture(params=EXTENDER_TEXTS)
def setting(request: pytest.FixtureRequest) -> Setting:
    return SETTINGS[request.param]


@pytest.fixture
def texts(setting: Setting) -> Texts:
    return EXTENDER_TEXTS[setting.field]


def needed(setting: Setting) -> dict[str, str]:
    return NEEDED.get(setting.field, {})


def test_every_setting_is_tried_here() -> None:
    assert list(EXTENDER_TEXTS) == [each.name for each in fields(ExtenderConfig)]


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    setting: Setting, texts: Texts, tmp_path: Path
) -> None:
    beside = needed(setting)
    flag, variable = {setting.field: texts.one} | beside, {setting.variable: texts.one}
    file = write(tmp_path, **{setting.field: texts.other})

    by_flag = load_extender_config(flag, {setting.variable: texts.other}, file=file)
    by_variable = load_extender_config(beside, variable, file=file)
    by_file = load_extender_config(beside, {}, file=file)

    one, other = setting.read(texts.one), setting.read(texts.other)
    assert getattr(by_flag, setting.field) == one
    assert getattr(by_variable, setting.field) == one
    assert getattr(by_file, setting.field) == other


def test_one_setting_changes_itself_alone(setting: Setting, texts: Texts) -> None:
    given = {setting.field: texts.one} | needed(setting)
    config = load_extender_config(given, {})

    changes = {field: SETTINGS[field].read(text) for field, text in given.items()}
    assert config == replace(ExtenderConfig(), **changes)


def test_the_printed_configuration_is_read_back_from_each_source(
    setting: Setting, texts: Texts, tmp_path: Path
) -> None:
    for text in (texts.one, texts.other):
        config = load_extender_config({setting.field: text} | needed(setting), {})
        printed = shown(config)
        by_field = {field: printed[each.key] for field, each in SETTINGS.items()}
        by_variable = {each.variable: printed[each.key] for each in SETTINGS.values()}

        assert load_extender_config(by_field, {}) == config
        assert load_extender_config({}, by_variable) == config
        assert load_extender_config({}, {}, file=write(tmp_path, **by_field)) == config


@pytest.mark.parametrize("field", WITH_WRONG)
def test_a_wrong_value_is_told_by_the_name_it_was_given_under(field: str, tmp_path: Path) -> None:
    setting, texts = SETTINGS[field], EXTENDER_TEXTS[field]
    file = write(tmp_path, **{field: texts.wrong})
    ways: dict[str, tuple[dict[str, str], dict[str, str], Path | None]] = {
        setting.flag: ({field: str(texts.wrong)}, {}, None),
        setting.variable: ({}, {setting.variable: str(texts.wrong)}, None),
        f"{file}, key {setting.key}": ({}, {}, file),
    }

    for name, (flags, environ, path) in ways.items():
        with pytest.raises(ConfigError) as caught:
            load_extender_config(flags, environ, file=path)

        assert str(caught.value).startswith(f"{name}: ")
        assert repr(texts.wrong) in str(caught.value)
        assert texts.expected in str(caught.value)


# ------------------------------------------------------------------- what goes together


@pytest.mark.parametrize("address", ["0.0.0.0:1", ":1", "[::]:1", "10.0.0.7:1", "gpu.example:1"])
def test_plain_http_off_loopback_takes_its_own_flag(address: str) -> None:
    with pytest.raises(ConfigError, match=r"Expected --tls-certificate .* or --plain-http"):
        load_extender_config({"listen_address": address}, {})

    config = load_extender_config({"listen_address": address, "plain_http": "on"}, {})
    assert config.plain_http


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"])
def test_plain_http_on_loopback_needs_nothing(address: str) -> None:
    assert not load_extender_config({"listen_address": address}, {}).has_tls


def test_a_name_is_not_taken_for_loopback_by_its_looks() -> None:
    assert not is_loopback("localhost.example.com")
    assert is_loopback("::1%lo")


def test_tls_serves_anywhere() -> None:
    tls = {"tls_certificate": "/c", "tls_key": "/k", "tls_client_ca": "/ca"}

    assert load_extender_config({"listen_address": ":443", **tls}, {}).has_tls


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls_certificate": "/c"}, "found one of them, expected both or none"),
        ({"tls_key": "/k"}, "found one of them, expected both or none"),
        ({"tls_client_ca": "/ca"}, "found no --tls-certificate"),
        ({"tls_certificate": "/c", "tls_key": "/k", "plain_http": "on"}, "one of the two"),
        ({"leader_elect": "on"}, "found no --pod-name or no --pod-namespace"),
        ({"leader_elect": "on", "pod_name": "a"}, "found no --pod-name or no --pod-namespace"),
        ({"resource_name": "a.com/b", "core_resource": "a.com/b"}, "memory's name too"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_extender_config(given, {})


def test_what_the_downward_api_tells_a_pod_of_itself_is_taken() -> None:
    environ = {"POD_NAME": "gpushare-0", "POD_NAMESPACE": "kube-system"}
    config = load_extender_config({"leader_elect": "on"}, environ)

    assert (config.pod_name, config.pod_namespace) == ("gpushare-0", "kube-system")


# ------------------------------------------------------------ the original's environment


def test_the_originals_manifest_starts_as_it_stands() -> None:
    environ = {"PORT": "12345", "LOG_LEVEL": "warn", "THREADNESS": "8", "KUBECONFIG": "/k"}
    config = load_extender_config({}, environ)

    assert config.listen_address == ("127.0.0.1", 12345)
    assert config.log_level.value == "warning"
    assert config.kubeconfig == Path("/k")
    assert [name for name, _ in take_over_environment(environ).warnings] == ["PORT", "THREADNESS"]


def test_without_the_originals_variables_nothing_is_told() -> None:
    assert take_over_environment({}).warnings == ()
    assert load_extender_config({}, {}) == ExtenderConfig()
    assert ExtenderConfig().listen_address == ("127.0.0.1", 39999)


def test_our_own_name_of_a_setting_wins_over_the_originals() -> None:
    environ = {"PORT": "12345", "GPUSHARE_LISTEN_ADDRESS": "127.0.0.1:1", "LOG_LEVEL": "info"}
    config = load_extender_config({"log_level": "debug"}, environ)

    assert config.listen_address == ("127.0.0.1", 1)
    assert config.log_level.value == "debug"


@pytest.mark.parametrize("variable", ["PORT", "LOG_LEVEL"])
def test_nonsense_in_one_of_the_originals_variables_is_refused_by_its_name(variable: str) -> None:
    with pytest.raises(ConfigError, match=f"^{variable}: found"):
        load_extender_config({}, {variable: "some"})
