"""Find the simulated NVML's library, or compile it.

Rule 1: the built file beside the sources is used only while it is newer than
        all of them; `make setup` and the image put it there.
Rule 2: a file in the cache is named by a hash of the sources and renamed into
        place whole, so several processes may compile at once.
Rule 3: nothing is loaded from a folder that belongs to another user.

Must not know: profiles, events, who loads the library.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpushare_plugin.errors import SimulationError

LIBRARY_NAME: Final = "libnvidia-ml.so.1"
_SOURCES: Final = Path(__file__).resolve().parent
_OPTIONS: Final = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
_COMPILE_SECONDS: Final = 120


def find_library(*, cache: Path) -> Path:
    """Return the built library, compiling it into `cache` if need be.

    Raises SimulationError: no compiler, a failing one, or a cache that cannot be used.
    """
    beside = _SOURCES / LIBRARY_NAME
    if beside.exists() and beside.stat().st_mtime_ns >= _newest_source_ns():
        return beside
    _own_folder(cache)
    cached = cache / f"nvml-stub-{_hash_of_sources()}.so"
    if not cached.exists():
        compile_library(cached)
    return cached


def compile_library(target: Path, *, options: Sequence[str] = ()) -> None:
    """Compile the stub to `target`, with `options` added to the compiler's.

    Raises SimulationError: no compiler, or a failing one.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise SimulationError(
            "simulated NVML: found no C compiler 'cc', expected one to build the library with; "
            "install gcc and libc6-dev, or run `make setup` where there is one"
        )
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / LIBRARY_NAME
        soname = f"-Wl,-soname,{LIBRARY_NAME}"
        sources = map(str, sorted(_SOURCES.glob("*.c")))
        _run([compiler, *_OPTIONS, *options, soname, "-o", str(built), *sources, "-lpthread"])
        built.replace(target)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(  # noqa: S603 - our own sources, a compiler from PATH
        command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if done.returncode != 0:
        raise SimulationError(
            f"simulated NVML: found that {command[0]} ends with {done.returncode}, expected a "
            f"built library; it says:\n{done.stderr.strip()}"
        )


def _inputs() -> list[Path]:
    return sorted([*_SOURCES.glob("*.c"), *_SOURCES.glob("*.h")])


def _newest_source_ns() -> int:
    return max(path.stat().st_mtime_ns for path in _inputs())


def _hash_of_sources() -> str:
    digest = hashlib.sha256(" ".join(_OPTIONS).encode())
    for path in _inputs():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _own_folder(cache: Path) -> None:
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = cache.stat().st_uid
    except OSError as error:
        raise SimulationError(
            f"simulated NVML: found that {cache} cannot be used ({error.strerror}), expected a "
            "folder to build into; make it writable, or build once with `make setup`"
        ) from error
    if owner != os.geteuid():
        raise SimulationError(
            f"simulated NVML: found that {cache} belongs to user {owner}, expected one of user "
            f"{os.geteuid()}; remove it, or build once with `make setup`"
        )
