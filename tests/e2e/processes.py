"""The real processes: the node daemon and the kubelet that it serves.

Rule: what is started here is stopped here, by its process ID, however a test ends.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gpushare_plugin.sim.kubelet import ContainerSpec, KubeletControl, PodSpec

RESOURCE = "aliyun.com/gpu-mem"
HANGS_SECONDS = 15.0
"""Only a process that hangs takes this long, on however slow a machine."""

_LINE = re.compile(r"\S+ (?P<level>\w+) (?P<event>\w+)(?P<fields>.*)")
_FIELD = re.compile(r' (?P<key>[\w-]+)=(?P<value>"(?:[^"\\]|\\.)*"|\S*)')


class DaemonProcess:
    """A node daemon, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._told = asyncio.Event()
        self.lines: list[str] = []
        self.ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_log(self) -> None:
        """Take in the log until the process ends."""
        assert self._process.stderr is not None
        async for raw in self._process.stderr:
            self.lines.append(raw.decode(errors="replace").rstrip("\n"))
            self._told.set()
        self.ended = True
        self._told.set()

    def of(self, event: str, **fields: str) -> list[dict[str, str]]:
        """The fields of each such event so far."""
        found = [_parsed(line) for line in self.lines]
        return [
            values for name, values in found if name == event and fields.items() <= values.items()
        ]

    async def said(self, event: str, *, times: int = 1, **fields: str) -> dict[str, str]:
        """Wait until the event was logged so often with these fields; return its fields."""
        try:
            async with asyncio.timeout(HANGS_SECONDS):
                while len(self.of(event, **fields)) < times:
                    assert not self.ended, f"it ended before it said {event}: {self.lines}"
                    self._told.clear()
                    await self._told.wait()
        except TimeoutError:
            raise AssertionError(f"it never said {event} {fields}: {self.lines}") from None
        return self.of(event, **fields)[times - 1]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait for the process to end, and for all that it said."""
        async with asyncio.timeout(HANGS_SECONDS):
            code = await self._process.wait()
            while not self.ended:
                self._told.clear()
                await self._told.wait()
        return code

    async def stop(self) -> int:
        """Stop it as a node does; return the exit code."""
        self.send(signal.SIGTERM)
        return await self.exit_code()

    async def page(self, path: str) -> str:
        """Get one of its status pages, headers and all."""
        said = await self.said("status_pages")
        return await get("127.0.0.1", int(said["port"]), path)


def _parsed(line: str) -> tuple[str, dict[str, str]]:
    match = _LINE.fullmatch(line)
    if match is None:
        return "", {}
    fields = {
        field["key"]: json.loads(field["value"])
        if field["value"].startswith('"')
        else field["value"]
        for field in _FIELD.finditer(match["fields"])
    }
    return match["event"], fields | {"level": match["level"]}


async def get(host: str, port: int, path: str) -> str:
    """Get a page by the plainest of HTTP."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        async with asyncio.timeout(HANGS_SECONDS):
            return (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()


def sockets_in(folder: Path) -> list[str]:
    return ["--plugin-dir", f"{folder}/plugins", "--pod-resources-socket", f"{folder}/pods.sock"]


def node_arguments(folder: Path, *more: str) -> list[str]:
    """The daemon's command line for a node in this folder."""
    simulated = ["--simulate", "t4-x2", "--simulate-events", f"{folder}/events"]
    pages = ["--status-address", "127.0.0.1:0"]
    return [
        "node",
        "--without-cluster",
        *sockets_in(folder),
        *simulated,
        *pages,
        "--tick-seconds",
        "0.2",
        *more,
    ]


@asynccontextmanager
async def daemon(
    arguments: Sequence[str], *, environ: Mapping[str, str] | None = None
) -> AsyncIterator[DaemonProcess]:
    """Run `gpushare` with these arguments."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpushare_plugin", *arguments),
        stderr=asyncio.subprocess.PIPE,
        # No API server: what is tested here is between the daemon, the kubelet and the GPUs.
        env=clean_environ() | {"GPUSHARE_WITHOUT_CLUSTER": "on"} | dict(environ or {}),
    )
    running = DaemonProcess(process)
    reading = asyncio.create_task(running.read_log(), name="read the daemon's log")
    try:
        yield running
    finally:
        await _end(process)
        await reading


@asynccontextmanager
async def kubelet(folder: Path) -> AsyncIterator[KubeletControl]:
    """Run a kubelet in a process of its own."""
    control = folder / "control.sock"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpushare_plugin.sim.kubelet", *sockets_in(folder)),
        *("--control-socket", str(control)),
        stdout=asyncio.subprocess.DEVNULL,
        env=clean_environ(),
    )
    try:
        driven = KubeletControl(control)
        await driven.ready(timeout_seconds=HANGS_SECONDS)
        yield driven
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        # A stopped process hears nothing else.
        process.send_signal(signal.SIGCONT)
        process.terminate()
    try:
        async with asyncio.timeout(HANGS_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"process {process.pid} did not end by SIGTERM") from None


def clean_environ() -> dict[str, str]:
    """The environment, less any settings of the daemon's."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GPUSHARE_") and name != "DP_DISABLE_HEALTHCHECKS"
    }


async def ready(driven: KubeletControl, *, units: int = 30, registrations: int = 1) -> None:
    """Wait until the kubelet has so many healthy units, after so many registrations."""
    await driven.registered(RESOURCE, count=registrations, timeout_seconds=HANGS_SECONDS)
    await driven.allocatable(RESOURCE, equals=units, timeout_seconds=HANGS_SECONDS)


def pod(name: str, units: int) -> PodSpec:
    container = ContainerSpec(name="c0", requests={RESOURCE: units})
    return PodSpec(name=name, uid=f"uid-{name}", containers=(container,))
