"""The processes of the demo: the node daemon, its kubelet, and the API server.

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
from gpushare_plugin.sim.apiserver import ApiServerControl
from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import KubeletControl

NODE = "gpu-node"
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
    """The processes and the ways to reach them."""

    folder: Path
    kubelet: KubeletControl
    api: ApiServerControl
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
    kubelet_socket, api_socket = folder / "kubelet.sock", folder / "api.sock"
    kubelet, api = KubeletControl(kubelet_socket), ApiServerControl(api_socket)
    kubeconfig = folder / "kubeconfig"
    async with (
        _process("gpushare_plugin.sim.kubelet", *sockets, "--control-socket", str(kubelet_socket)),
        _process("gpushare_plugin.sim.apiserver", "--control-socket", str(api_socket)),
        _made_ready(api, kubeconfig),
        _process(
            "gpushare_plugin",
            "node",
            *("--node-name", NODE, "--kubeconfig", str(kubeconfig)),
            *sockets,
            *("--simulate", "t4-x2", "--simulate-events", str(events)),
            *("--probe-seconds", str(PROBE_SECONDS), "--status-address", "127.0.0.1:0"),
            stderr=asyncio.subprocess.PIPE,
        ) as node,
    ):
        await kubelet.ready(timeout_seconds=SAID_SECONDS)
        daemon = Daemon(node)
        reading = asyncio.create_task(daemon.read_log(), name="read the daemon's log")
        try:
            yield Peers(
                folder=folder,
                kubelet=kubelet,
                api=api,
                daemon=daemon,
                events=EventsFile(events),
                events_path=events,
            )
        finally:
            await daemon.stop()
            await reading


@asynccontextmanager
async def _made_ready(api: ApiServerControl, kubeconfig: Path) -> AsyncIterator[None]:
    """Wait for the API server, put the node into it, and write how to reach it."""
    await api.ready(timeout_seconds=SAID_SECONDS)
    await api.create("nodes", {"metadata": {"name": NODE}})
    await asyncio.to_thread(kubeconfig.write_text, await api.kubeconfig(), encoding="utf-8")
    yield


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
