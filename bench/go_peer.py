"""The Go peer of filter: built where Go is, with what Go has by itself, and run.

Rule: without Go nothing fails; why it is not there is told in words.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ROOT, BenchError, Measured, running_program

SOURCE = ROOT / "bench" / "peers" / "filter"
BUILD_SECONDS = 180.0
UP_SECONDS = 10.0
LOOK_SECONDS = 0.01
GO_PEER = "Go peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPeer:
    """The peer's URL and process, or why there is none."""

    address: str = ""
    absent: str = ""


@asynccontextmanager
async def go_peer(
    largest_free: Mapping[str, int], folder: Path, *, wanted: bool
) -> AsyncIterator[GoPeer]:
    """Build and run the peer, which knows these nodes; in the folder is nothing after that."""
    absent = await _built(folder) if wanted else "--without-go was given"
    if absent:
        yield GoPeer(absent=absent)
        return
    nodes, log = folder / "nodes", folder / "peer.log"
    lines = "".join(f"{name} {units}\n" for name, units in largest_free.items())
    nodes.write_text(lines, encoding="ascii")
    program = str(folder / "filter")
    async with running_program(program, "-nodes", str(nodes), log=log) as process:
        yield GoPeer(address=f"http://{await _address(process)}")


async def _built(folder: Path) -> str:
    """Build it into the folder; return why that was not possible, or nothing."""
    program = shutil.which("go")
    if program is None:
        return "there is no Go here"
    process = await asyncio.create_subprocess_exec(
        *(program, "build", "-o", str(folder / "filter"), "."),
        cwd=SOURCE,
        # What is here must do: no other version of Go is fetched, no workspace is looked for.
        env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(BUILD_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"Go did not build it within {BUILD_SECONDS:g} s"
    if process.returncode != 0:
        return f"Go did not build it: {said.decode(errors='replace').strip()[-400:]}"
    return ""


async def _address(process: Measured) -> str:
    until_seconds = time.monotonic() + UP_SECONDS
    while "\n" not in process.said():
        if time.monotonic() > until_seconds:
            raise BenchError(f"the Go peer did not come up:\n{process.said()}")
        await asyncio.sleep(LOOK_SECONDS)
    return process.said().splitlines()[0]
