"""The processes of the demo: the node daemon, and the kubelet that it serves.

Rule: what is started here is stopped here, by its process ID, however the story ends.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import KubeletControl

STOP_SECONDS = 5.0
SAID_SECONDS = 15.0
PROBE_SECONDS = 0.5
"""A node probes every 30 s; the story's recovery shall not take a minute."""

_LINE = re.compile(r"\S+ (?P<level>\w+) (?P<event>\w+)(?P<fields>.*)")
_FIELD = re.compile(r' (?P<key>[\w-]+)=(?P<value>"(?:[^"\\]|\\.)*"|\S*)')


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of the daemon's log."""

    level: str
    event: str
    fields: dict[str, str]


class Daemon:
    """The node daemon's process, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._told = asyncio.Event()
        self.lines: list[LogLine] = []
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
            SimulationError: the daemon ended, or did not say so in time.
        """
        try:
            async with asyncio.timeout(SAID_SECONDS):
                while True:
                    self._told.clear()
                    found = [line for line in self.lines[after:] if line.event == event]
                    if len(found) >= times:
                        return found[times - 1]
                    if self.ended.is_set():
                        raise SimulationError(f"the daemon ended before it said {event}")
                    await self._told.wait()
        except TimeoutError:
            raise SimulationError(f"the daemon did not say {event}") from None

    async def stop(self) -> int:
        """Stop it as a node does, by SIGTERM; return its exit code."""
        return await _stopped(self._process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """The two processes and the ways to reach them."""

    folder: Path
    kubelet: KubeletControl
    daemon: Daemon
    events: EventsFile
    events_path: Path


@asynccontextmanager
async def node_with_kubelet(folder: Path) -> AsyncIterator[Peers]:
    """Start a kubelet and the node daemon in this folder; stop both in the end."""
    plugin_dir = folder / "device-plugins"
    plugin_dir.mkdir()
    events = folder / "events"
    sockets = ["--plugin-dir", str(plugin_dir), "--pod-resources-socket", str(folder / "pods.sock")]
    control = folder / "control.sock"
    async with (
        _process("gpushare_plugin.sim.kubelet", *sockets, "--control-socket", str(control)),
        _process(
            "gpushare_plugin",
            "node",
            "--without-cluster",
            *sockets,
            *("--simulate", "t4-x2", "--simulate-events", str(events)),
            *("--probe-seconds", str(PROBE_SECONDS), "--status-address", "127.0.0.1:0"),
            stderr=asyncio.subprocess.PIPE,
        ) as node,
    ):
        kubelet = KubeletControl(control)
        await kubelet.ready(timeout_seconds=SAID_SECONDS)
        daemon = Daemon(node)
        reading = asyncio.create_task(daemon.read_log(), name="read the daemon's log")
        try:
            yield Peers(
                folder=folder,
                kubelet=kubelet,
                daemon=daemon,
                events=EventsFile(events),
                events_path=events,
            )
        finally:
            await daemon.stop()
            await reading


@asynccontextmanager
async def _process(
    module: str, *arguments: str, stderr: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    # Settings of the person's own must not change the story.
    environment = {key: value for key, value in os.environ.items() if "GPUSHARE" not in key}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=stderr if stderr is not None else asyncio.subprocess.DEVNULL,
        env=environment,
    )
    try:
        yield process
    finally:
        await _stopped(process)


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
