"""What a cluster asks of a daemon that does nothing: daemonset.yaml's probes, and a scrape.

Rule: each page is asked for over a connection of its own, as the kubelet's probes are.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.processes import BenchError
from bench.subjects import Side

PAGES = (("/healthz", 10.0), ("/readyz", 5.0), ("/metrics", 30.0))
"""Each page with the seconds between two asks; Prometheus scrapes so often in many clusters."""
PAGE_SECONDS = 5.0


@asynccontextmanager
async def probed(sides: Sequence[Side]) -> AsyncIterator[None]:
    """Meanwhile ask these daemons for their pages, each at once and then again and again."""
    async with asyncio.TaskGroup() as tasks:
        asking = [
            tasks.create_task(_ask(side, page, seconds), name=f"ask for {page}")
            for side in sides
            for page, seconds in PAGES
        ]
        try:
            yield
        finally:
            for each in asking:
                each.cancel()


async def _ask(side: Side, page: str, between_seconds: float) -> None:
    port = int(side.plugin.logged("status_pages", "port"))
    while True:
        async with asyncio.timeout(PAGE_SECONDS):
            await _page(port, page)
        await asyncio.sleep(between_seconds)


async def _page(port: int, page: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {page} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
    finally:
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise BenchError(f"{page}: {answer[:200]!r}")
