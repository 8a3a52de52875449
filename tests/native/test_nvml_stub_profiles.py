"""The profile format: what is wrong is told by file, line, found and expected."""

from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile, load

Configure = Callable[[str | bytes], EventsFile]

CARD = "gpu uuid=GPU-a name=A total_mib=10"
CUT = f"{CARD} mig=on\nmig gpu=0 uuid=MIG-1 gi=1 ci=0 profile_name=1g total_mib=5"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gpus uuid=a", "found a line of kind 'gpus', expected one that profiles know"),
        ("xid gpu=0 code=79", "found a line of kind 'xid', expected one that profiles know"),
        ("gpu name=A total_mib=1", "found no uuid= in a 'gpu' line, expected one"),
        ("gpu uuid= name=A total_mib=1", "found uuid=, expected 1 to 95 bytes"),
        (f"gpu uuid={'x' * 96} name=A", f"found uuid={'x' * 96}, expected 1 to 95 bytes"),
        ("gpu uuid=b name=A", "found no total_mib= in a 'gpu' line, expected a whole number"),
        (
            "gpu uuid=b name=A total_mib=1GiB",
            "found total_mib=1GiB, expected a whole number from 0 to 4294967295",
        ),
        (
            "gpu uuid=b name=A total_mib=-1",
            "found total_mib=-1, expected a whole number from 0 to 4294967295",
        ),
        (
            "gpu uuid=b name=A total_mib=99999999999999999999",
            "found total_mib=99999999999999999999, expected a whole number from 0 to 4294967295",
        ),
        (
            "gpu uuid=b name=A total_mib=1 reserved_mib=2",
            "found reserved_mib above total_mib, expected at most total_mib",
        ),
        ("gpu uuid=b uuid=c", "found uuid= twice, expected it once"),
        ('gpu uuid=b name="A', 'found a quote that is not closed, expected a second "'),
        (
            "gpu uuid=b name=A total_mib=1 events=maybe",
            "found events=maybe, expected one of: supported unsupported unknown",
        ),
        (
            "gpu uuid=b name=A total_mib=1 pci=slot3",
            "found pci=slot3, expected an address like 00000000:3B:00.0",
        ),
        ("gpu uuid=b name=A total_mib=1 cc=8", "found cc=8, expected a number like 8.0"),
        (
            "gpu uuid=b bytes_name=f total_mib=1",
            "found bytes_name=f, expected pairs of lower-case hex digits, none 00",
        ),
        (CARD, "found uuid=GPU-a a second time, expected each card once"),
        (
            "mig gpu=0 uuid=MIG-1 gi=1 ci=0 profile_name=1g total_mib=5",
            "found a MIG instance on a card that is not in MIG mode, expected mig=on",
        ),
        (
            "process gpu=0 pid=1 used_mib=1 gi=1 ci=0",
            "found gi= and ci= of no MIG instance of the card, expected those of one",
        ),
        ("lost gpu=1", "found gpu=1, expected the index or UUID of one of 1 cards"),
        ("lost gpu=GPU-b", "found gpu=GPU-b, expected the index or UUID of one of 1 cards"),
        ("lost gpu=0 now", "found 'now' in a 'lost' line, expected only: gpu"),
        ("lost gpu=0 at=1", "found 'at' in a 'lost' line, expected only: gpu"),
        (
            "missing nvmlNonsense",
            "found the call 'nvmlNonsense', expected one that the stub answers",
        ),
        (
            "fail call=nvmlDeviceGetCount error=1",
            "found the call 'nvmlDeviceGetCount', expected nvmlDeviceGetCount_v2",
        ),
        (
            "fail call=nvmlDeviceGetName error=0",
            "found error=0, expected an NVML error from 1 to 999",
        ),
        ("init fine", "found 'fine', expected ok or error=N"),
        ("link a=0 b=0 nvlink=1", "found a link from a card to itself, expected two cards"),
        ("path a=0 b=0", "found no level= in a 'path' line, expected one"),
        (f"gpu {'a ' * 40}", "found more than 32 fields, expected fewer"),
        ("gpu \0", "found a NUL byte, expected text"),
    ],
)
def test_a_line_that_is_wrong_keeps_nvml_shut_and_says_why(
    configure: Configure, tmp_path: Path, capfd: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    configure(f"# one card\n{CARD}\n{line}\n")

    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlInit()

    assert capfd.readouterr().err.startswith(f"nvml stub: {tmp_path}/machine.profile:3: {told}")


def test_a_second_instance_with_the_same_ids_is_wrong(
    configure: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(f"{CUT}\nmig gpu=0 uuid=MIG-2 gi=1 ci=0 profile_name=1g total_mib=5")

    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlInit()

    assert ":3: found a second instance with this UUID or gi= and ci=" in capfd.readouterr().err


def test_a_profile_that_is_not_there_keeps_nvml_shut(
    library: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load(library, profile=tmp_path / "none", events=tmp_path / "events")

    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlInit()

    assert capfd.readouterr().err == (
        f"nvml stub: found no profile at '{tmp_path}/none' (No such file or directory), "
        "expected a readable file\n"
    )


def test_a_mended_profile_is_read_at_the_next_try(configure: Configure, tmp_path: Path) -> None:
    configure("nonsense")
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlInit()

    (tmp_path / "machine.profile").write_text(CARD)
    pynvml.nvmlInit()

    assert pynvml.nvmlDeviceGetCount() == 1


def test_quotes_comments_blanks_and_a_missing_last_line_end_are_read(configure: Configure) -> None:
    configure(f'\r\n  # nothing\n\tgpu uuid="GPU-#1" name="A # B" total_mib=1 # rest\r\n{CARD}')
    pynvml.nvmlInit()

    first = pynvml.nvmlDeviceGetHandleByIndex(0)

    assert pynvml.nvmlDeviceGetUUID(first) == "GPU-#1"
    assert pynvml.nvmlDeviceGetName(first) == "A # B"
    assert pynvml.nvmlDeviceGetCount() == 2
