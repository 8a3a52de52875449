"""NVML over the simulated library: one machine a test, closed at its end."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpushare_plugin.adapters.nvml import NvmlSource
from gpushare_plugin.ports import Reading
from gpushare_plugin.sim.gpus import EventsFile, profiles, simulate


@dataclass
class Machine:
    """A simulated machine, and the ways into its NVML that a test has opened."""

    folder: Path
    opened: list[NvmlSource] = field(default_factory=list)

    @property
    def events(self) -> EventsFile:
        """What happens to the GPUs from now on."""
        return EventsFile(self.folder / "events")

    def source(self, profile: str, *, share_mig: bool = False) -> NvmlSource:
        """The adapter over a shipped profile, or over a profile's text; not opened yet."""
        if profile not in profiles():
            path = self.folder / "machine.profile"
            path.write_text(profile)
            profile = str(path)
        gpus = simulate(profile, events=self.folder / "events")
        source = NvmlSource(library=gpus.library, share_mig=share_mig)
        self.opened.append(source)
        return source

    def open(self, profile: str, *, share_mig: bool = False) -> NvmlSource:
        source = self.source(profile, share_mig=share_mig)
        source.open()
        return source

    def read(self, profile: str, *, share_mig: bool = False) -> Reading:
        return self.open(profile, share_mig=share_mig).read()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine to be described; its NVML, which is the process's own, is closed at the end."""
    machine = Machine(tmp_path)
    yield machine
    for source in machine.opened:
        source.close()
