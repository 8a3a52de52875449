"""Building the simulated NVML, and making a process take it for the real one.

What a process has loaded stays loaded, so these tests start processes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpushare_plugin
from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.gpus import EventsFile, profiles, simulate

COUNT = """
import sys
from pathlib import Path
from gpushare_plugin.sim.gpus import simulate
gpus = simulate("t4-x2", events=Path("events"))
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetCount(), gpus.library)
"""


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """A folder with a copy of the package in which nothing is built."""
    package = Path(gpushare_plugin.__file__).parent
    names = ["__init__.py", "errors.py", "sim"]
    (tmp_path / "gpushare_plugin").mkdir()
    for name in names:
        source, target = package / name, tmp_path / "gpushare_plugin" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.so.1", "__pycache__"))
        else:
            shutil.copyfile(source, target)
    return tmp_path


def start(script: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    home = {"HOME": str(folder), "PYTHONPATH": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | home | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, folder: Path, **environment: str) -> str:
    process = start(script, folder, **environment)
    output, errors = process.communicate()
    return output if process.returncode == 0 else errors


def test_a_built_library_is_used_where_it_lies(unbuilt: Path) -> None:
    folder = unbuilt / "gpushare_plugin" / "sim" / "nvml_stub"
    build = "from gpushare_plugin.sim.nvml_stub.building import *; from pathlib import Path; "
    run(f"{build} compile_library(Path({str(folder / 'libnvidia-ml.so.1')!r}))", unbuilt)

    assert run(COUNT, unbuilt) == f"2 {folder}/libnvidia-ml.so.1\n"


def test_a_built_library_older_than_its_sources_is_not_used(unbuilt: Path) -> None:
    beside = unbuilt / "gpushare_plugin" / "sim" / "nvml_stub" / "libnvidia-ml.so.1"
    beside.write_bytes(b"not a library")
    os.utime(beside, (0, 0))

    assert run(COUNT, unbuilt).startswith(f"2 {unbuilt}/.cache/gpushare/nvml-stub-")


def test_two_processes_may_build_at_once_and_a_third_builds_nothing(unbuilt: Path) -> None:
    both = [start(COUNT, unbuilt) for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    library = Path(outputs[0].split()[1])
    built_ns = library.stat().st_mtime_ns

    third = run(COUNT, unbuilt)

    assert {*outputs, third} == {f"2 {library}\n"}
    assert library.stat().st_mtime_ns == built_ns
    assert [path.name for path in library.parent.iterdir()] == [library.name]


def test_without_a_compiler_the_error_names_the_cure(unbuilt: Path) -> None:
    told = run(COUNT, unbuilt, PATH=str(unbuilt))

    assert "found no C compiler 'cc'" in told
    assert "install gcc and libc6-dev, or run `make setup`" in told


def test_a_compiler_that_fails_is_quoted(unbuilt: Path) -> None:
    stub = unbuilt / "gpushare_plugin" / "sim" / "nvml_stub"
    (stub / "world.c").write_text("#error broken on purpose\n")

    told = run(COUNT, unbuilt)

    assert "SimulationError: simulated NVML: found that " in told
    assert "broken on purpose" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_another_user_is_not_trusted(unbuilt: Path) -> None:
    cache = unbuilt / ".cache" / "gpushare"
    cache.mkdir(parents=True)
    os.chown(cache, 12345, 12345)

    assert "belongs to user 12345, expected one of user 0" in run(COUNT, unbuilt)


def test_another_nvml_that_is_loaded_already_is_noticed(library: Path, tmp_path: Path) -> None:
    shutil.copyfile(library, tmp_path / "real.so")

    told = run(f"import ctypes; ctypes.CDLL({str(tmp_path / 'real.so')!r})\n{COUNT}", tmp_path)

    assert "found another libnvidia-ml.so.1 loaded in this process" in told


def test_gpus_are_not_changed_under_an_open_nvml(tmp_path: Path) -> None:
    again = 'simulate("mixed", events=Path("events"))'

    assert "found NVML open in this process" in run(f"{COUNT}\n{again}", tmp_path)


def test_the_environment_names_the_files_where_nobody_configured_the_library(
    library: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.profile").write_text("gpu uuid=GPU-a name=A total_mib=1\n")
    EventsFile(tmp_path / "events").lost(0)
    script = f"""
import ctypes, pynvml
ctypes.CDLL({str(library)!r})
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetCount())
pynvml.nvmlDeviceGetHandleByIndex(0)
"""
    files = {"GPUSHARE_NVML_PROFILE": "one.profile", "GPUSHARE_NVML_EVENTS": "events"}

    process = start(script, tmp_path, **files)
    output, errors = process.communicate()

    assert output == "1\n"
    assert "NVMLError_GpuIsLost" in errors


def test_a_profile_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "one.profile").write_text("gpu uuid=GPU-a name=A total_mib=1\n")

    assert run(COUNT.replace("t4-x2", "one.profile"), tmp_path).startswith("1 ")


def test_an_unknown_profile_is_answered_with_those_that_ship(tmp_path: Path) -> None:
    with pytest.raises(SimulationError) as refused:
        simulate("t4", events=tmp_path / "events")

    assert str(refused.value) == (
        "simulated GPUs: found profile 't4', expected a file or one of: "
        "a100-80-x8, a100-pcie-x4, h200-x8, mig, mixed, t4-x2"
    )
    assert len(profiles()) == 6


def test_an_events_file_takes_whole_lines_only(tmp_path: Path) -> None:
    events = EventsFile(tmp_path / "events")
    events.lost("GPU-a")

    with pytest.raises(SimulationError, match="expected no quote and no new line"):
        events.lost('GPU-a"\nxid code="79')

    assert (tmp_path / "events").read_text() == 'lost gpu="GPU-a"\n'
