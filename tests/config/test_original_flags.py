"""The original plugin's command lines, as they stand in people's manifests."""

import pytest

from gpushare_plugin.config import take_over
from gpushare_plugin.config.original_flags import TakenOver


def arguments(*given: str) -> tuple[str, ...]:
    return take_over(given).arguments


def dropped(*given: str) -> list[str]:
    return [flag for flag, _ in take_over(given).warnings]


def test_the_originals_daemonset_starts_as_it_stands() -> None:
    taken = take_over(["-logtostderr", "--v=5", "--memory-unit=GiB"])

    assert taken.arguments == ("--memory-unit=GiB",)
    assert [flag for flag, _ in taken.warnings] == ["--logtostderr", "--v"]
    assert all(reason for _, reason in taken.warnings)


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("-health-check=false", "--health=false"),
        ("--health-check", "--health"),
        ("-memory-unit=MiB", "--memory-unit=MiB"),
        ("--memory-unit=MiB", "--memory-unit=MiB"),
    ],
)
def test_what_ours_has_too_is_passed_on_in_our_words(given: str, ours: str) -> None:
    assert take_over([given]) == TakenOver(arguments=(ours,))


def test_a_value_may_stand_behind_its_flag_with_one_dash_or_two() -> None:
    assert arguments("-memory-unit", "MiB") == ("--memory-unit", "MiB")


def test_a_dropped_flag_takes_its_value_with_it() -> None:
    given = ["--query-kubelet", "--kubelet-address", "1.2.3.4", "--policy", "spread"]

    assert arguments(*given) == ("--policy", "spread")
    assert dropped(*given) == ["--query-kubelet", "--kubelet-address"]


@pytest.mark.parametrize("switch", ["--mps", "--query-kubelet", "-logtostderr", "-alsologtostderr"])
def test_a_dropped_switch_does_not_take_the_next_argument(switch: str) -> None:
    assert arguments(switch, "--policy=spread") == ("--policy=spread",)
    assert arguments(f"{switch}=false", "--policy=spread") == ("--policy=spread",)


@pytest.mark.parametrize(
    "flag",
    [
        *("kubelet-address", "kubelet-port", "client-cert", "client-key", "token", "timeout"),
        *("stderrthreshold", "v", "vmodule", "log_dir", "log_backtrace_at"),
    ],
)
def test_each_flag_without_meaning_here_is_dropped_in_all_its_spellings(flag: str) -> None:
    for given in ([f"-{flag}", "x"], [f"--{flag}", "x"], [f"-{flag}=x"], [f"--{flag}=x"]):
        assert arguments(*given, "--policy=spread") == ("--policy=spread",)
        assert dropped(*given) == [f"--{flag}"]


def test_a_dropped_flag_at_the_end_without_its_value_is_dropped_too() -> None:
    assert take_over(["--kubelet-port"]).arguments == ()


def test_a_value_with_an_equals_sign_or_a_line_end_stays_whole() -> None:
    assert arguments("--token=a=b\nc", "--simulate=a=b") == ("--simulate=a=b",)


def test_what_is_not_the_originals_stays_as_it_is() -> None:
    given = ("-h", "--help", "word", "--", "--no-such-option=1", "-")

    assert arguments(*given) == given


def test_a_command_line_of_ours_is_not_changed() -> None:
    given = ("--memory-unit", "256MiB", "--mig=shared", "--health", "off")

    assert take_over(given) == TakenOver(arguments=given)
