"""Simulated GPUs: a C library that pynvml takes for NVML, and what it is fed.

Rule 1: the simulation ends at NVML's binary interface. The programs use pynvml
        as they do on a real node, and nothing in them knows.
Rule 2: what there is stands in a profile, what happens is appended to an events
        file; several processes may watch the same file.

The grammar of both files is in `nvml_stub/__init__.py`. Must not know: pynvml,
the adapter that uses it, the node daemon.
"""

import ctypes
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.nvml_stub.building import LIBRARY_NAME, find_library

_PROFILES: Final = Path(__file__).resolve().parent / "profiles"
_SUFFIX: Final = ".profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGpus:
    """What this process takes for its GPUs."""

    library: Path  # absolute
    profile: Path
    events: Path  # need not exist yet


def profiles() -> tuple[str, ...]:
    """Names of the profiles that come with the product."""
    return tuple(sorted(path.stem for path in _PROFILES.glob(f"*{_SUFFIX}")))


def simulate(profile: str, *, events: Path) -> SimulatedGpus:
    """Make this process's NVML a simulated one: `profile` is a shipped name or a path.

    Call it while nobody has NVML open; it forgets what was simulated before.

    Raises SimulationError: an unknown profile, a library that cannot be built or loaded, NVML
    in use.
    """
    described = find_profile(profile)
    return load(find_library(cache=_cache()), profile=described, events=events)


def find_profile(profile: str) -> Path:
    """Return the file of a shipped profile, or of a path.

    Raises SimulationError: there is none.
    """
    if profile in profiles():
        return _PROFILES / f"{profile}{_SUFFIX}"
    if Path(profile).is_file():
        return Path(profile).resolve()
    raise SimulationError(
        f"simulated GPUs: found profile '{profile}', expected a file or one of: "
        f"{', '.join(profiles())}"
    )


def load(library: Path, *, profile: Path, events: Path) -> SimulatedGpus:
    """Load a built library and give it its files.

    Raises SimulationError: it cannot be loaded, another one is, or NVML is in use.
    """
    try:
        stub = ctypes.CDLL(str(library))
        # What pynvml will get: the loader matches by soname among what is loaded.
        seen = ctypes.CDLL(LIBRARY_NAME)
    except OSError as error:
        raise SimulationError(
            f"simulated GPUs: found that {library} does not load ({error}), expected a library "
            "for this machine; remove it, so that it is built anew"
        ) from error
    if seen._handle != stub._handle:  # noqa: SLF001 - ctypes has no other name for it
        raise SimulationError(
            f"simulated GPUs: found another {LIBRARY_NAME} loaded in this process, expected "
            f"{library} to be the first; simulate before NVML is opened"
        )
    if stub.gpushare_stub_configure(os.fsencode(profile), os.fsencode(events)) != 0:
        raise SimulationError(
            "simulated GPUs: found NVML open in this process, expected it closed; "
            "shut it down first"
        )
    return SimulatedGpus(library=library, profile=profile, events=events)


def _cache() -> Path:
    try:
        return Path.home() / ".cache" / "gpushare"
    except RuntimeError:  # a user without a home, as in many containers
        return Path(tempfile.gettempdir()) / f"gpushare-{os.geteuid()}"


class EventsFile:
    """Says what happens to simulated GPUs: each call appends one whole line.

    A card is named by its NVML index or its UUID, an error by NVML's number.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def xid(
        self, gpu: int | str | None, code: int, *, gi: int | None = None, ci: int | None = None
    ) -> None:
        """Report an XID on a card, one of its MIG instances, or (None) on no card by name."""
        self._append("xid", gpu=gpu, code=code, gi=gi, ci=ci)

    def lost(self, gpu: int | str) -> None:
        """Let a card fall off the bus; it stays in the count."""
        self._append("lost", gpu=gpu)

    def back(self, gpu: int | str) -> None:
        """Bring a lost card back."""
        self._append("back", gpu=gpu)

    def remove(self, gpu: int | str) -> None:
        """Take a card out: it is no longer counted."""
        self._append("remove", gpu=gpu)

    def add(self, *, uuid: str, name: str, total_mib: int, **fields: int | str) -> None:
        """Put a card in; `fields` are those of a profile's `gpu` line."""
        self._append("add", uuid=uuid, name=name, total_mib=total_mib, **fields)

    def ecc(self, gpu: int | str, uncorrected: int) -> None:
        """Set a card's count of uncorrected memory errors."""
        self._append("ecc", gpu=gpu, uncorrected=uncorrected)

    def fail(self, call: str, error: int, *, gpu: int | str | None = None) -> None:
        """Let an NVML call answer an error, for one card or always."""
        self._append("fail", call=call, gpu=gpu, error=error)

    def heal(self, call: str, *, gpu: int | str | None = None) -> None:
        """Let an NVML call answer truly again, for one card or for all."""
        self._append("heal", call=call, gpu=gpu)

    def break_event_sets(self, error: int) -> None:
        """Let waiting for events, and new event sets, answer an error."""
        self._append("eventset", error=error)

    def mend_event_sets(self) -> None:
        """Let event sets work again."""
        self._append("eventset ok")

    def break_init(self, error: int) -> None:
        """Let nvmlInit answer an error; 18, a driver upgrade, breaks every other call too."""
        self._append("init", error=error)

    def mend_init(self) -> None:
        """Let nvmlInit work again."""
        self._append("init ok")

    def mig_mode(self, gpu: int | str, *, on: bool) -> None:
        """Turn MIG mode on or off; off takes the card's instances away."""
        self._append("migmode on" if on else "migmode off", gpu=gpu)

    def mig(self, gpu: int | str, *, uuid: str, total_mib: int, **fields: int | str) -> None:
        """Make a MIG instance; `fields` are those of a profile's `mig` line."""
        self._append("mig", gpu=gpu, uuid=uuid, total_mib=total_mib, **fields)

    def unmig(self, uuid: str) -> None:
        """Take a MIG instance away."""
        self._append("unmig", uuid=uuid)

    def process(
        self, gpu: int | str, *, pid: int, used_mib: int | None, **fields: int | str
    ) -> None:
        """Start a process, or change it; `used_mib` None: the driver cannot say."""
        used = "unavailable" if used_mib is None else used_mib
        self._append("process", gpu=gpu, pid=pid, used_mib=used, **fields)

    def exit(self, pid: int) -> None:
        """End a process on all its cards."""
        self._append("exit", pid=pid)

    def _append(self, head: str, **fields: int | str | None) -> None:
        given = [f'{key}="{value}"' for key, value in fields.items() if value is not None]
        line = " ".join([head, *given])
        if "\n" in line or line.count('"') != 2 * len(given):
            raise SimulationError(f"events file: found {line!r}, expected no quote and no new line")
        # One write, so that lines of several writers do not mix.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)
