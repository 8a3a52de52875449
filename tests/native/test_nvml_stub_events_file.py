"""How the events file is read, through the real pynvml."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile

Open = Callable[[str], EventsFile]

TWO = """
gpu uuid=GPU-a name=A total_mib=1000
gpu uuid=GPU-b name=B total_mib=2000
"""


def listen(index: int) -> Any:
    events = pynvml.nvmlEventSetCreate()
    card = pynvml.nvmlDeviceGetHandleByIndex(index)
    pynvml.nvmlDeviceRegisterEvents(card, pynvml.nvmlEventTypeXidCriticalError, events)
    return events


def codes(events: Any) -> list[int]:
    """Take all that waits in a set."""
    taken = []
    while True:
        try:
            taken.append(pynvml.nvmlEventSetWait(events, 0).eventData)
        except pynvml.NVMLError_Timeout:
            return taken


def test_a_process_that_opens_nvml_later_sees_the_state_and_no_old_xids(
    configure: Open,
) -> None:
    happen = configure(TWO)
    happen.lost(0)
    happen.ecc(1, 3)
    happen.xid(1, 79)

    pynvml.nvmlInit()
    heard = listen(1)

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByIndex(0)
    assert codes(heard) == []


def test_a_line_is_read_when_it_is_complete(open_nvml: Open, tmp_path: Path) -> None:
    open_nvml(TWO)
    heard = listen(0)

    with (tmp_path / "events").open("a") as file:
        file.write("xid gpu=0 co")
        file.flush()
        assert codes(heard) == []
        file.write("de=79\n")

    assert codes(heard) == [79]


def test_an_events_file_made_anew_is_read_from_its_start(open_nvml: Open, tmp_path: Path) -> None:
    happen = open_nvml(TWO)
    heard = listen(0)
    happen.xid(0, 13)
    assert codes(heard) == [13]

    (tmp_path / "new").write_text("xid gpu=0 code=31\n# longer than the old one\n")
    (tmp_path / "new").replace(tmp_path / "events")

    assert codes(heard) == [31]


def test_a_wrong_line_in_the_events_file_is_told_and_skipped(
    open_nvml: Open, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    happen = open_nvml(TWO)
    heard = listen(0)

    (tmp_path / "events").write_text("# a comment\nxid gpu=9 code=79\n")
    happen.xid(0, 13)

    assert codes(heard) == [13]
    assert capfd.readouterr().err == (
        f"nvml stub: {tmp_path}/events:2: found gpu=9, expected the index or UUID of one of 2 "
        "cards\n"
    )
