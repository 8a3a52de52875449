"""A place for a cluster on this machine, from which nothing gets out.

Network, mounts and processes are namespaces of their own: every port is free, two runs
at once do not meet, and when the first process in there ends, by whatever signal, all
of them do. Cgroups and a few sysctls are the machine's: those are put back by who
started the run, or by the next run after a crash.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "gpushare-e2e-"
KUBELET_SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
"""Those that the kubelet writes; they are no namespace's."""
UNSHARE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("--propagation", "private", "--"),
)


class CannotRun(Exception):
    """A cluster cannot be had on this machine; the text says why."""


def check() -> None:
    """Raise CannotRun if this machine gives no namespaces."""
    if os.geteuid() != 0:
        raise CannotRun(f"needs root for namespaces and mounts; this is user {os.geteuid()}")
    for tool in ("unshare", "setpriv", "ip"):
        if shutil.which(tool) is None:
            raise CannotRun(f"{tool} is not installed")
    outcome = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise CannotRun(f"no namespaces here: {outcome.stderr.strip()}")


@contextmanager
def working_folder() -> Iterator[Path]:
    """Yield a folder for a run; take away, in the end, all that a run leaves on the machine."""
    _sweep()
    sysctls = {each: Path("/proc/sys", each).read_text() for each in KUBELET_SYSCTLS}
    kubelet = Path("/var/lib/kubelet")
    had_kubelet = kubelet.exists()
    kubelet.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        for each, value in sysctls.items():
            Path("/proc/sys", each).write_text(value)
        shutil.rmtree(folder, ignore_errors=True)
        if not had_kubelet:
            with suppress(OSError):
                kubelet.rmdir()
        _remove_cgroups(f"{PREFIX}{os.getpid()}-")


def run(command: Sequence[str], folder: Path) -> int:
    """Run a command in the sandbox; return its exit code."""
    environment = {**os.environ, "GPUSHARE_E2E_FOLDER": str(folder)}
    return subprocess.run(
        [*UNSHARE, sys.executable, "-m", "e2e.inside", *command], env=environment, check=False
    ).returncode


def cgroup(name: str) -> str:
    """Make a cgroup for a node in each hierarchy; return its name for the kubelet."""
    path = f"{Path(os.environ['GPUSHARE_E2E_FOLDER']).name.rsplit('-', 1)[0]}-{name}"
    for hierarchy in _hierarchies():
        (hierarchy / path).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / setting).exists():
                (hierarchy / path / setting).write_text((hierarchy / setting).read_text())
    return f"/{path}"


def _sweep() -> None:
    """Remove what runs left that did not end by themselves."""
    for hierarchy in _hierarchies():
        for path in hierarchy.glob(f"{PREFIX}*"):
            number = path.name.removeprefix(PREFIX).split("-")[0]
            if number.isdecimal() and not Path("/proc", number).exists():
                _remove_cgroups(f"{PREFIX}{number}-")
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX).split("-")[0]
        if number.isdecimal() and not Path("/proc", number).exists():
            shutil.rmtree(path, ignore_errors=True)


def _remove_cgroups(prefix: str) -> None:
    for hierarchy in _hierarchies():
        for top in hierarchy.glob(f"{prefix}*"):
            for path in sorted((each for each in top.rglob("*") if each.is_dir()), reverse=True):
                with suppress(OSError):
                    path.rmdir()
            with suppress(OSError):
                top.rmdir()


def _hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [
        each for each in CGROUPS.iterdir() if (each / "tasks").exists() and not each.is_symlink()
    ]
