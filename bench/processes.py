"""Processes that are measured: start one, read what the kernel says of it, stop it.

Rule: what is started here is stopped here, by its process ID.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 5.0
SHOWN_BYTES = 4000


class BenchError(Exception):
    """Something did not run; the text says what, and the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of one process, from smaps_rollup."""

    rss_mib: float
    private_mib: float


class Measured:
    """A running process."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def memory(self) -> Memory:
        """Return how much memory it has now."""
        kib = dict.fromkeys(("Rss", "Private_Clean", "Private_Dirty"), 0)
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in kib:
                kib[name] = int(value.split()[0])
        private_kib = kib["Private_Clean"] + kib["Private_Dirty"]
        return Memory(rss_mib=kib["Rss"] / 1024, private_mib=private_kib / 1024)

    def peak_rss_mib(self) -> float:
        """Return the most memory that it ever had."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(peak) / 1024

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads since it began, to the nanosecond."""
        # The clock of a process by its ID, as clock_getcpuclockid(3) makes it on Linux.
        return time.clock_gettime(~self.pid << 3 | 2)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    def has_logged(self, event: str) -> bool:
        """Say whether there is a whole line of an event in its log."""
        lines = self._log.read_text(errors="replace").split("\n")[:-1]
        return any(line.split()[2:3] == [event] for line in lines)

    def logged(self, event: str, field: str) -> str:
        """Return a field of the first log line of an event.

        Raises:
            BenchError: there is none.
        """
        for line in self._log.read_text(errors="replace").splitlines():
            words = line.split()
            if words[2:3] == [event]:
                fields = dict(word.split("=", 1) for word in words[3:] if "=" in word)
                return fields[field]
        raise BenchError(f"{event} was not logged:\n{self.said()}")

    def said(self) -> str:
        """Return the end of its log."""
        return self._log.read_bytes()[-SHOWN_BYTES:].decode(errors="replace")

    async def stop(self) -> None:
        """Stop it by SIGTERM, and by SIGKILL if that does not help."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def running(module: str, *arguments: str, log: Path) -> AsyncIterator[Measured]:
    """Run a module of ours; its output goes to a file, as a container's does."""
    async with running_program(sys.executable, "-m", module, *arguments, log=log) as measured:
        yield measured


@asynccontextmanager
async def running_program(*command: str, log: Path) -> AsyncIterator[Measured]:
    """Run any program; its output goes to a file."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            cwd=ROOT,
        )
    measured = Measured(process, log)
    try:
        yield measured
    finally:
        await measured.stop()


def compile_modules() -> None:
    """Have our modules' bytecode there, as after an installation and in the image."""
    folders = [str(ROOT / name) for name in ("gpushare_plugin", "bench")]
    command = [sys.executable, "-m", "compileall", "-q", *folders]
    subprocess.run(command, check=True, env=_environment())  # noqa: S603


def _environment() -> dict[str, str]:
    """Return the environment without what a person set for themselves; a node has none of it."""
    return {
        key: value
        for key, value in os.environ.items()
        if "GPUSHARE" not in key and not key.startswith(("PYTHON", "MALLOC_"))
    }


def raised_priority() -> bool:
    """Take precedence over other programs, where we may; what is started later inherits it."""
    try:
        os.nice(-10)
    except OSError:
        return False
    return True
