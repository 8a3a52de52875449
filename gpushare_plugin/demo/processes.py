"""Processes of the demo, and what their logs say.

Rule: what is started here is stopped here, by its process ID, however the story ends.
"""

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from gpushare_plugin.errors import SimulationError

STOP_SECONDS = 5.0
SAID_SECONDS = 15.0

_LINE = re.compile(r"\S+ (?P<level>\w+) (?P<event>\w+)(?P<fields>.*)")
_FIELD = re.compile(r' (?P<key>[\w-]+)=(?P<value>"(?:[^"\\]|\\.)*"|\S*)')
_DULL = frozenset(
    {"endpoint", "device_prefix", "uuid", "error", "reaction", "cards", "was", "stale_seconds"}
)
"""Fields that do not tell the story, or differ from run to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a program's log."""

    level: str
    event: str
    fields: dict[str, str]

    @property
    def short(self) -> str:
        """The line without what is dull."""
        told = [f"{key}={value}" for key, value in self.fields.items() if key not in _DULL]
        return " ".join([self.event, *told])


class Daemon:
    """The process of a program of ours, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name
        self._told = asyncio.Event()
        self.lines: list[LogLine] = []
        self.shown = 0
        """How many lines the story has passed."""
        self.ended = asyncio.Event()

    async def read_log(self) -> None:
        """Take in the log until the process ends."""
        assert self._process.stderr is not None  # noqa: S101  # it was started with a pipe
        async for raw in self._process.stderr:
            line = _parsed(raw.decode(errors="replace"))
            if line is not None:
                self.lines.append(line)
            self._told.set()
        self.ended.set()
        self._told.set()

    async def said(self, event: str, *, after: int = 0, times: int = 1) -> LogLine:
        """Wait until the log has the event so often behind line `after`; return the last line.

        Raises:
            SimulationError: the program ended, or did not say so in time.
        """
        try:
            async with asyncio.timeout(SAID_SECONDS):
                while True:
                    self._told.clear()
                    found = [line for line in self.lines[after:] if line.event == event]
                    if len(found) >= times:
                        return found[times - 1]
                    if self.ended.is_set():
                        raise SimulationError(f"{self._name} ended before it said {event}")
                    await self._told.wait()
        except TimeoutError:
            raise SimulationError(f"{self._name} did not say {event}") from None

    async def news(self, *events: str) -> list[str]:
        """Return the log since the last look, these events only, in short.

        An event that is named several times is waited for as often.
        """
        begin = self.shown
        for event, count in Counter(events).items():
            await self.said(event, after=begin, times=count)
        lines, self.shown = self.lines[begin:], len(self.lines)
        return [line.short for line in lines if line.event in events]

    async def stop(self) -> int:
        """Stop it as a node does, by SIGTERM; return its exit code."""
        return await _stopped(self._process)


@asynccontextmanager
async def our_program(name: str, *arguments: str) -> AsyncIterator[Daemon]:
    """Run one of our programs, and read its log; all of it has been read in the end."""
    async with process("gpushare_plugin", *arguments, stderr=asyncio.subprocess.PIPE) as started:
        daemon = Daemon(started, name)
        reading = asyncio.create_task(daemon.read_log(), name=f"read the log of {name}")
        try:
            yield daemon
        finally:
            await daemon.stop()
            await reading


@asynccontextmanager
async def process(
    module: str, *arguments: str, stderr: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a module of ours."""
    # Settings of the person's own must not change the story.
    environment = {key: value for key, value in os.environ.items() if "GPUSHARE" not in key}
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=stderr if stderr is not None else asyncio.subprocess.DEVNULL,
        env=environment,
    )
    try:
        yield started
    finally:
        await _stopped(started)


async def _stopped(process: asyncio.subprocess.Process) -> int:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


def _parsed(text: str) -> LogLine | None:
    match = _LINE.fullmatch(text.rstrip("\n"))
    if match is None:
        return None
    fields = {each["key"]: each["value"].strip('"') for each in _FIELD.finditer(match["fields"])}
    return LogLine(level=match["level"], event=match["event"], fields=fields)
