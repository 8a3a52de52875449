"""The extender as a process: started, ready, asked."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.http_client import HttpClient, get_request
from bench.processes import BenchError, Measured, running
from bench.subjects import ServiceAccount

PREFIX = "/gpushare-scheduler"
READY_SECONDS = 60.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """One that knows its cluster."""

    process: Measured
    address: str
    ready_seconds: float
    """From before its process began until it said that it is ready."""


@asynccontextmanager
async def extender(account: ServiceAccount) -> AsyncIterator[Extender]:
    """Run an extender and wait until it is ready."""
    with tempfile.TemporaryDirectory(prefix="gsb", ignore_cleanup_errors=True) as name:
        log = Path(name) / "extender.log"
        addresses = ("--listen-address", "127.0.0.1:0", "--status-address", "off")
        arguments = (account.address, str(account.folder), "extender", *addresses)
        began = time.perf_counter()
        async with running("bench.service_account", *arguments, log=log) as process:
            address = await _ready_at(process, until_seconds=began + READY_SECONDS)
            ready_seconds = time.perf_counter() - began
            yield Extender(process=process, address=address, ready_seconds=ready_seconds)


async def _ready_at(process: Measured, *, until_seconds: float) -> str:
    """Return its address once it says there that it is ready."""
    address = ""
    while process.runs and time.perf_counter() < until_seconds:
        if not address and process.has_logged("listening"):
            address = f"http://127.0.0.1:{process.logged('listening', 'port')}"
        if address and _is_ready(address):
            return address
        await asyncio.sleep(LOOK_SECONDS)
    raise BenchError(f"the extender is not ready:\n{process.said()}")


def _is_ready(address: str) -> bool:
    with HttpClient(address) as client:
        status, _ = client.answer(get_request("/readyz"))
    return status == 200
