"""The place for a real cluster (e2e/sandbox.py) gives everything back, killed or not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e import sandbox
from tests.recordings import REPOSITORY

RUN = """
import sys
from e2e import sandbox
with sandbox.working_folder() as folder:
    print(folder, flush=True)
    sandbox.run([sys.executable, "-c", sys.argv[1]], folder)
"""
# What a node makes: a cgroup, and a process in a session of its own.
NODE = """
import subprocess
from e2e import sandbox
sandbox.cgroup("node-a")
sleeping = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("up", flush=True)
sleeping.wait()
"""


@pytest.fixture(autouse=True)
def able() -> None:
    try:
        sandbox.check()
    except sandbox.CannotRun as error:
        pytest.skip(str(error))


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run that was killed in the middle."""
    with started(tmp_path, NODE) as run:
        folder = Path(line(run))
        assert line(run) == "up"
        assert processes_of(folder)
        assert cgroups_of(folder)
        run.send_signal(signal.SIGKILL)
        run.wait()
        yield folder
    with started(tmp_path, "") as last:
        last.wait()


def test_a_run_that_is_killed_leaves_no_process_and_no_mount(killed: Path) -> None:
    while processes_of(killed):
        time.sleep(0.02)

    assert str(killed) not in Path("/proc/self/mountinfo").read_text()


def test_the_next_run_sweeps_what_a_killed_one_left(killed: Path, tmp_path: Path) -> None:
    while processes_of(killed):
        time.sleep(0.02)

    with started(tmp_path, "") as run:
        folder = Path(line(run))
        run.wait()

    assert not killed.exists()
    assert not cgroups_of(killed)
    assert not folder.exists()


def test_a_run_leaves_another_that_lives_alone(tmp_path: Path) -> None:
    with started(tmp_path, NODE) as first:
        folder = Path(line(first))
        assert line(first) == "up"

        with started(tmp_path, "") as second:
            second.wait()

        assert processes_of(folder)
        assert cgroups_of(folder)
        first.kill()
    with started(tmp_path, "") as third:
        third.wait()
    assert not folder.exists()


def started(folder: Path, inside: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, inside],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )


def line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def processes_of(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"GPUSHARE_E2E_FOLDER={folder}".encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def cgroups_of(folder: Path) -> list[Path]:
    tops = [sandbox.CGROUPS, *sandbox.CGROUPS.iterdir()]
    return [each for top in tops for each in top.glob(f"{folder.name}-*")]
