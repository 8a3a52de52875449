"""Processes that are measured: start one, read what the kernel says of it, stop it.

Rule: what is started here is stopped here, by its process ID.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 5.0
SHOWN_BYTES = 4000

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


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

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads since it began."""
        return _cpu_seconds(Path(f"/proc/{self.pid}/stat"))

    def polling_cpu_seconds(self) -> float:
        """Return the part of it that the simulated driver takes to poll its events file.

        Its waiting thread is the only one that sleeps by the clock; a real driver's is
        woken by an event and costs nothing meanwhile.
        """
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            if "nanosleep" in (thread / "wchan").read_text():
                return _cpu_seconds(thread / "stat")
        return 0.0

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


def _cpu_seconds(stat: Path) -> float:
    # The second field is the program's name in brackets, which may hold spaces.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


@asynccontextmanager
async def running(module: str, *arguments: str, log: Path) -> AsyncIterator[Measured]:
    """Run a module of ours; its output goes to a file, as a container's does."""
    # Settings of the person's own must not change the figures; a node has none of these.
    environment = {
        key: value
        for key, value in os.environ.items()
        if "GPUSHARE" not in key and not key.startswith("SSL_CERT")
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=ROOT,
        )
    measured = Measured(process, log)
    try:
        yield measured
    finally:
        await measured.stop()


def raised_priority() -> bool:
    """Take precedence over other programs, where we may; what is started later inherits it."""
    try:
        os.nice(-10)
    except OSError:
        return False
    return True
