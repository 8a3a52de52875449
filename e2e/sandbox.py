"""A place for a cluster on this machine, from which nothing gets out.

Network, mounts and processes are namespaces of their own: every port is free, two runs
at once do not meet, and when the first process in there ends, by whatever signal, all
of them do. Cgroups and a few sysctls are the machine's: those are put back by who
started the run, or by the next run after a crash.
"""

import fcntl
import json
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
SYSCTLS = "sysctls.json"
KUBELET_FOLDER = Path("/var/lib/kubelet")
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
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # Held while the run lives, however it ends: by it the next run knows what to sweep.
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    before = {each: Path("/proc/sys", each).read_text() for each in KUBELET_SYSCTLS}
    (folder / SYSCTLS).write_text(json.dumps(before))
    try:
        with _kubelet_folder():
            yield folder
    finally:
        _clean(folder)
        os.close(lock)


@contextmanager
def _kubelet_folder() -> Iterator[None]:
    """Have a place where nodes mount their own; take it away if nobody else uses it.

    A folder that goes takes with it what others have mounted there, in any namespace.
    """
    KUBELET_FOLDER.mkdir(exist_ok=True)
    use = os.open(KUBELET_FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(use, fcntl.LOCK_SH)
        yield
    finally:
        # Of a run beside us, or of a kubelet of the machine, which has files there.
        with suppress(OSError):
            fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            KUBELET_FOLDER.rmdir()
        os.close(use)


def run(command: Sequence[str], folder: Path) -> int:
    """Run a command in the sandbox; return its exit code."""
    environment = {**os.environ, "GPUSHARE_E2E_FOLDER": str(folder)}
    return subprocess.run(
        [*UNSHARE, sys.executable, "-m", "e2e.inside", *command], env=environment, check=False
    ).returncode


def cgroup(name: str) -> str:
    """Make a cgroup for a node in each hierarchy; return its name for the kubelet."""
    path = f"{Path(os.environ['GPUSHARE_E2E_FOLDER']).name}-{name}"
    for hierarchy in _hierarchies():
        (hierarchy / path).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / setting).exists():
                (hierarchy / path / setting).write_text((hierarchy / setting).read_text())
    return f"/{path}"


def _sweep() -> None:
    """Clean up after runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # It runs.
        else:
            _clean(folder)
        finally:
            os.close(lock)


def _clean(folder: Path) -> None:
    with suppress(OSError, ValueError):  # It was killed before it wrote them.
        for each, value in json.loads((folder / SYSCTLS).read_text()).items():
            Path("/proc/sys", each).write_text(value)
    _remove_cgroups(f"{folder.name}-")
    shutil.rmtree(folder, ignore_errors=True)


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
    # Of version 1, and `unified`, of version 2, where runc makes its own beside them.
    procs = CGROUPS.glob("*/cgroup.procs")
    return [each.parent for each in procs if not each.parent.is_symlink()]
