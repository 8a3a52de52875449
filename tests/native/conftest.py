"""The simulated NVML, opened by the real pynvml.

pynvml keeps the library it loaded for the life of the process, so all tests of
one process share one library, and each gives it files of its own.
"""

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

import gpushare_plugin.sim.nvml_stub
from gpushare_plugin.sim.gpus import EventsFile, load
from gpushare_plugin.sim.nvml_stub.building import compile_library, find_library

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover", "-g")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built library; one with sanitizers where their run time is loaded already."""
    cache = tmp_path_factory.mktemp("library")
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        return find_library(cache=cache)
    built = cache / "sanitized.so"
    compile_library(built, options=SANITIZERS)
    return built


@pytest.fixture
def configure(library: Path, tmp_path: Path) -> Iterator[Callable[[str | bytes], EventsFile]]:
    """Give NVML a profile's text, without opening it; closes NVML at the end."""

    def configure(profile: str | bytes) -> EventsFile:
        described = tmp_path / "machine.profile"
        described.write_bytes(profile if isinstance(profile, bytes) else profile.encode())
        load(library, profile=described, events=tmp_path / "events")
        return EventsFile(tmp_path / "events")

    yield configure
    stub = ctypes.CDLL(str(library))
    while stub.nvmlShutdown() == pynvml.NVML_SUCCESS:
        pass


@pytest.fixture
def open_nvml(configure: Callable[[str], EventsFile]) -> Callable[[str], EventsFile]:
    """Give NVML a profile's text and open it."""

    def open_nvml(profile: str) -> EventsFile:
        events = configure(profile)
        pynvml.nvmlInit()
        return events

    return open_nvml


@pytest.fixture(scope="session")
def calls() -> tuple[str, ...]:
    """Every NVML call that the stub says it answers."""
    listed = Path(gpushare_plugin.sim.nvml_stub.__path__[0]) / "calls.h"
    return tuple(re.findall(r"X\((nvml\w+)\)", listed.read_text()))
