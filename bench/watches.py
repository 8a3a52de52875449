"""Rows of what the client of the API server takes in: a list of all pods, and a watch's events.

The client runs in this process, and the API server in one of its own. Beside each, as what
it cannot be less than: the same bytes received over the same transport, and not read.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from bench.cluster import cluster, others
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.subjects import RESOURCE
from gpushare_plugin.adapters.kube.client import KubeClient
from gpushare_plugin.adapters.kube.failures import Call
from gpushare_plugin.adapters.kube.informer import Informer
from gpushare_plugin.adapters.kube.reading import page, pod_reader
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports.cluster import Listing, WatchEvent

SILENCE_SECONDS = 10.0
SAME_BYTES = "same bytes, not read"
MOST_LIST_MS = 350.0
PAGE_OBJECTS = 100
"""As the client asks for them."""


class _FromVersion:
    """Pods of which none is listed: all come as events of the watch."""

    what = "pods"

    def __init__(self, client: KubeClient, version: str) -> None:
        self._client = client
        self._version = version

    async def listing(self, *, first: bool) -> Listing[Pod]:
        """Return nothing, as of the version."""
        del first
        return Listing(version=self._version, objects=())

    def watch(self, version: str) -> AsyncGenerator[WatchEvent[Pod], None]:
        """Watch all pods."""
        return self._client.watch_pods(version=version)


async def watch_rows(plan: Plan) -> list[Row]:
    """Measure both."""
    count = plan.cluster_pods
    async with cluster() as found, Transport(found.credentials()) as transport:
        client = KubeClient(transport, pods=pod_reader([RESOURCE]))
        version = (await client.list_pods()).version
        await others(found.api, count)
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "list": lambda: _list(client),
            "pages": lambda: receive_pages(transport, "pods"),
            "watch": lambda: _watch(client, version, count),
            "lines": lambda: receive_lines(transport, "pods", version, count),
        }
        wall: dict[str, list[float]] = {name: [] for name in works}
        cpu: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(plan.rounds):
            for name, work in works.items():
                began, cpu_began = time.perf_counter(), time.process_time()
                await work()
                wall[name].append(time.perf_counter() - began)
                cpu[name].append(time.process_time() - cpu_began)
    milliseconds = {name: [each * 1e3 for each in rounds] for name, rounds in cpu.items()}
    wall_ms = {name: [each * 1e3 for each in rounds] for name, rounds in wall.items()}
    rate = {name: [count / each for each in rounds] for name, rounds in wall.items()}
    return [
        row(
            f"Relist of {count:,} pods, processor time",
            "ms",
            milliseconds["list"],
            milliseconds["pages"],
            baseline_is=SAME_BYTES,
        ),
        row(
            f"Relist of {count:,} pods, from begin to end",
            "ms",
            wall_ms["list"],
            wall_ms["pages"],
            baseline_is=SAME_BYTES,
            bound=Bound(most=MOST_LIST_MS, of=Compared.OURS),
            note="the simulated API server's own work is in it, and most of it",
        ),
        row(
            f"{count:,} watch events into an informer, processor time",
            "ms",
            milliseconds["watch"],
            milliseconds["lines"],
            baseline_is=SAME_BYTES,
        ),
        row(
            "Watch events a second, as fast as they are sent",
            "/s",
            rate["watch"],
            rate["lines"],
            baseline_is=SAME_BYTES,
            note="the simulated API server's own work is in it",
        ),
    ]


async def _list(client: KubeClient) -> None:
    await client.list_pods()


async def receive_pages(transport: Transport, resource: str) -> None:
    """Receive a whole list, in pages as the client asks for them."""
    token = ""
    while True:
        query = {"limit": str(PAGE_OBJECTS)} | ({"continue": token} if token else {})
        body = await transport.answer(Call(verb="list", resource=resource, query=query))
        # The outline only, for the next page's token: the objects stay bytes.
        token = page(body).next_page
        if not token:
            return


async def _watch(client: KubeClient, version: str, count: int) -> None:
    all_there, seen = asyncio.Event(), 0

    def changed(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            all_there.set()

    source = _FromVersion(client, version)
    informer = Informer(source, changed, waits=BackOff(), clock=time.monotonic)
    running = asyncio.create_task(informer.run(), name="informer")
    try:
        await all_there.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def receive_lines(transport: Transport, resource: str, version: str, count: int) -> None:
    """Receive so many events of a watch."""
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "60"}
    call = Call(verb="watch", resource=resource, query=query)
    lines = 0
    async with aclosing(transport.chunks(call, silence_seconds=SILENCE_SECONDS)) as chunks:
        async for chunk in chunks:
            lines += chunk.count(b"\n")
            if lines >= count:
                return
