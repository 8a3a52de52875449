"""Any file may be given to the simulated NVML: it refuses it, or works by it.

With `--native-sanitizers` this runs under the sanitizers too, which end the
process where memory is misused.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pynvml
import pytest

from gpushare_plugin.sim.gpus import EventsFile, find_profile, load, profiles

Configure = Callable[[str | bytes], EventsFile]

CALLS_ON_A_CARD: Final = (
    pynvml.nvmlDeviceGetUUID,
    pynvml.nvmlDeviceGetName,
    pynvml.nvmlDeviceGetIndex,
    pynvml.nvmlDeviceGetMinorNumber,
    pynvml.nvmlDeviceGetPciInfo,
    pynvml.nvmlDeviceGetMemoryInfo,
    pynvml.nvmlDeviceGetMigMode,
    pynvml.nvmlDeviceGetAttributes,
    pynvml.nvmlDeviceGetComputeRunningProcesses,
    pynvml.nvmlDeviceGetUtilizationRates,
    pynvml.nvmlDeviceGetSupportedEventTypes,
    lambda card: pynvml.nvmlDeviceGetProcessUtilization(card, 0),
    lambda card: pynvml.nvmlDeviceRegisterEvents(card, 8, pynvml.nvmlEventSetCreate()),
    lambda card: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(card, 0),
    lambda card: pynvml.nvmlDeviceGetP2PStatus(card, card, 2),
    lambda card: pynvml.nvmlDeviceGetTotalEccErrors(card, 1, 0),
)


def ask_everything() -> int:
    """Ask each card and instance all there is to ask; returns how many answers came."""
    answers = 0
    for index in range(pynvml.nvmlDeviceGetCount()):
        for handle in handles(index):
            for call in CALLS_ON_A_CARD:
                answers += answered(call, handle)
    return answers


def handles(index: int) -> Iterator[object]:
    """A card's handle, and those of its instances."""
    with suppress(pynvml.NVMLError):
        card = pynvml.nvmlDeviceGetHandleByIndex(index)
        yield card
        for instance in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(card)):
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, instance)


def answered(call: Callable[[Any], object], handle: object) -> bool:
    try:
        call(handle)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return False
    return True


def mangle(text: bytes, chance: random.Random) -> bytes:
    """Spoil a text in one to four places: bytes, tokens, lines, numbers."""
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        short = text[at : min(to, at + 20)]
        swap = chance.choice(
            [b"", b" ", b'"', b"=", b"\n", b"\0", b"#", b"9" * 30, b"\xff", short * 3]
        )
        text = text[:at] + swap + text[chance.choice([at, at + 1, at + len(short)]) :]
    return text


EVENTS: Final = b"""xid gpu=0 code=79
lost gpu=0
back gpu=0
remove gpu=0
add uuid=GPU-new name="A new one" total_mib=100 mig=on
mig gpu=GPU-new uuid=MIG-new gi=1 ci=2 profile_name=1g total_mib=50
process gpu=GPU-new pid=12 used_mib=10 gi=1 ci=2
xid gpu=GPU-new code=31 gi=1 ci=2
unmig uuid=MIG-new
migmode gpu=GPU-new off
ecc gpu=0 uncorrected=3
fail call=nvmlDeviceGetMemoryInfo gpu=0 error=999
heal call=nvmlDeviceGetMemoryInfo gpu=0
eventset error=999
eventset ok
exit pid=12
xid code=48
"""


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_stands_in_the_files_breaks_the_library(
    configure: Configure, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - chance that can be repeated
    shipped = [find_profile(name).read_bytes() for name in ("mig", "mixed", "a100-pcie-x4")]
    opened = 0

    for _ in range(60):
        profile = chance.choice(shipped)
        configure(mangle(profile, chance) if chance.random() < 0.7 else profile)
        (tmp_path / "events").write_bytes(mangle(EVENTS, chance))
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            continue
        opened += 1
        if answered(lambda _: pynvml.nvmlDeviceGetCount(), None):
            ask_everything()
        (tmp_path / "events").write_bytes(mangle(EVENTS * 2, chance))
        if answered(lambda _: pynvml.nvmlDeviceGetCount(), None):
            ask_everything()
        pynvml.nvmlShutdown()

    assert opened > 5


@pytest.mark.parametrize("name", profiles())
def test_each_shipped_profile_opens_and_its_cards_answer(
    library: Path, configure: Configure, tmp_path: Path, name: str
) -> None:
    configure("")
    load(library, profile=find_profile(name), events=tmp_path / "events")
    pynvml.nvmlInit()

    cards = [
        pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
    ]
    starts = {pynvml.nvmlDeviceGetUUID(card)[len("GPU-") :][:8] for card in cards}

    assert ask_everything() > 0
    assert len(starts) == len(cards)  # device IDs begin with these digits
    assert all(len(start) == 8 for start in starts)
