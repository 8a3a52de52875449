"""The command line as a person or a manifest gives it: words in, exit code and lines out."""

import os
import re
from pathlib import Path

import pytest

from gpushare_plugin import __version__
from gpushare_plugin.cli import main
from gpushare_plugin.config import settings
from tests.config.texts import TEXTS

SETTINGS = {setting.field: setting for setting in settings()}
WITH_WRONG = [field for field, texts in TEXTS.items() if texts.wrong is not None]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # The command line sets these for the process, which here is the tests' own.
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.delenv("GPUSHARE_CONFIG", raising=False)


def exit_code(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_names_every_setting_with_its_meaning(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("node", flag) == 0

    told = " ".join(capsys.readouterr().out.split())
    for setting in settings():
        assert re.search(rf"{setting.flag}\b", told)
        assert setting.meaning.split(":")[0] in told


@pytest.mark.parametrize("field", WITH_WRONG)
def test_a_wrong_option_ends_in_exit_code_2_and_one_line_that_says_what_was_expected(
    field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = TEXTS[field]

    assert exit_code("node", SETTINGS[field].flag, str(texts.wrong)) == 2

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "error bad_configuration" in lines[0]
    assert f"{SETTINGS[field].flag}: " in lines[0]
    assert texts.expected in lines[0]


def test_a_wrong_variable_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUSHARE_POLICY", "random")

    assert exit_code("node") == 2
    assert "GPUSHARE_POLICY: found 'random'" in capsys.readouterr().err


@pytest.mark.parametrize("by_option", [True, False])
def test_the_file_is_named_by_an_option_or_a_variable(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    by_option: bool,
) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("policy: random\n")
    if not by_option:
        monkeypatch.setenv("GPUSHARE_CONFIG", str(file))

    assert exit_code("node", *(["--config", str(file)] if by_option else [])) == 2
    assert f"{file}, key policy: found 'random'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("node", "--no-such-option"),
        ("node", "--no-such-option=1"),
        ("node", "-no-such-option"),
        ("node", "word"),
        ("node", "--memory-unit"),
        ("no-such-command",),
    ],
)
def test_what_is_not_known_is_refused_with_exit_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    assert "Error:" in capsys.readouterr().err


def test_what_cannot_work_ends_in_exit_code_1_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        exit_code(
            "node",
            "--without-cluster",
            "--simulate",
            str(tmp_path / "none"),
            "--status-address=off",
        )
        == 1
    )

    last = capsys.readouterr().err.splitlines()[-1]
    assert "error cannot_work" in last
    assert "expected a file or one of" in last


def test_a_switch_may_stand_alone_before_another_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code("node", "--uniform-cards", "--policy", "random") == 2
    assert "--policy: found 'random'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["--uniform-cards"], "uniform-cards=on"),
        (["--uniform-cards", "off"], "uniform-cards=off"),
        (["--uniform-cards=on"], "uniform-cards=on"),
        (["--health=off", "-health-check"], "health=on"),
        (["-health-check=false"], "health=off"),
    ],
)
def test_a_switch_is_on_alone_and_else_what_its_value_says(
    given: list[str], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code("node", "--without-cluster", *given, "--simulate", str(tmp_path / "none"))

    assert f" {shown} " in capsys.readouterr().err


def test_the_originals_command_line_is_taken_with_a_warning_for_each_word_without_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["-logtostderr", "--v=5", "--query-kubelet", "--kubelet-address", "1.2.3.4"]

    assert exit_code("node", *given, "-health-check=perhaps") == 2

    lines = capsys.readouterr().err.splitlines()
    warned = re.findall(r"option_without_effect option=(\S+) reason=", "\n".join(lines))
    assert warned == ["--logtostderr", "--v", "--query-kubelet", "--kubelet-address"]
    assert "--health: found 'perhaps', expected on or off" in lines[-1]


def test_the_configuration_in_force_is_printed_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code("node", "--simulate", str(tmp_path / "none"), "--memory-unit", "1024MiB")

    [line] = [each for each in capsys.readouterr().err.splitlines() if " configuration " in each]
    for setting in settings():
        assert f" {setting.key}=" in line
    assert " memory-unit=GiB " in line
