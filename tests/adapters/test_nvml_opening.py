"""Connecting to the driver: each reason it may fail, with its cure."""

from pathlib import Path

import pytest

from gpushare_plugin.adapters.nvml import NvmlSource
from gpushare_plugin.errors import NvmlUnavailable
from tests.adapters.conftest import Machine

NODE = "system driver=570.124.06 cuda=12080\ngpu uuid=GPU-a name=A total_mib=1024\n"


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (12, "install the NVIDIA driver"),
        (9, "load it \\(modprobe nvidia\\)"),
        (18, "reload the driver or reboot the node"),
        (4, "give this container the nvidia runtime"),
        (999, "connecting to the driver: Unknown Error"),
        (15, "connecting to the driver: GPU is lost"),
    ],
)
def test_b23_an_nvml_that_does_not_open_is_unavailable_with_the_cure(
    error: int, cure: str, machine: Machine
) -> None:
    source = machine.source(NODE)
    machine.events.break_init(error)

    with pytest.raises(NvmlUnavailable, match=cure) as caught:
        source.open()

    assert caught.value.__cause__ is not None


def test_b23_a_driver_that_comes_later_is_opened_by_the_same_source(machine: Machine) -> None:
    source = machine.source(NODE)
    machine.events.break_init(9)
    with pytest.raises(NvmlUnavailable):
        source.open()
    machine.events.mend_init()

    source.open()

    assert len(source.read().gpus) == 1


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "libnvidia-ml.so.1"

    with pytest.raises(NvmlUnavailable, match=f"{missing} cannot be loaded"):
        NvmlSource(library=missing).open()


def test_a_library_that_is_none_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "libnvidia-ml.so.1"
    broken.write_text("not a library")

    with pytest.raises(NvmlUnavailable, match=r"invalid ELF header|file too short"):
        NvmlSource(library=broken).open()


def test_a_closed_nvml_can_be_opened_again(machine: Machine) -> None:
    source = machine.open(NODE)
    source.close()

    source.open()

    assert len(source.read().gpus) == 1


def test_closing_twice_does_no_harm(machine: Machine) -> None:
    source = machine.open(NODE)

    source.close()
    source.close()


def test_a_closed_nvml_says_that_it_was_shut_down(machine: Machine) -> None:
    source = machine.open(NODE)
    source.close()

    with pytest.raises(NvmlUnavailable, match="shut down under us"):
        source.read()
