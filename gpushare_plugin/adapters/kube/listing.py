"""A whole list, page by page.

Rule 1: pages are small and objects are decoded one by one: whoever shares the event
loop (a kubelet's call) never waits for a long list.
Rule 2: pages that are forgotten in the middle (410) begin anew: half a list is none.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

from gpushare_plugin.adapters.kube import reading, wire
from gpushare_plugin.adapters.kube.failures import Call
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.errors import ApiExpired, ApiUnavailable
from gpushare_plugin.ports.cluster import Listing, T, Versioned

PAGE_OBJECTS = 100
MOST_PAGE_OBJECTS = 500
"""As many as the clients of Kubernetes itself ask for."""
PAGE_BYTES = 1 << 20
"""Pages grow and shrink towards this: a pod may be as large as its devices are many."""
TURN_BYTES = 1 << 18
"""How much is decoded before others may run: about a millisecond's work."""
TRIES = 3


async def listed(transport: Transport, call: Call, reader: Reader[T]) -> Listing[T]:
    """Return all objects of a list; raises ApiError."""
    for _ in range(TRIES - 1):
        try:
            return await _whole(transport, call, reader)
        except ApiExpired:
            continue
    return await _whole(transport, call, reader)


async def _whole(transport: Transport, call: Call, reader: Reader[T]) -> Listing[T]:
    version = ""
    objects: list[Versioned[T]] = []
    async for page in _pages(transport, call):
        # Later pages say the same; where one does not, the first is what no change is missed from.
        version = version or page.version
        try:
            objects.extend([each async for each in _decoded(page.objects, reader)])
        except wire.Garbled as error:
            raise ApiUnavailable(f"{call}: an object of the list is garbled: {error}") from error
    return Listing(version=version, objects=tuple(objects))


async def _pages(transport: Transport, call: Call) -> AsyncIterator[reading.Page]:
    limit, token = PAGE_OBJECTS, ""
    while True:
        query = {**call.query, "limit": str(limit)}
        if token:
            query["continue"] = token
        body = await transport.answer(replace(call, query=query))
        try:
            page = reading.page(body)
        except wire.Garbled as error:
            raise ApiUnavailable(f"{call}: the answer is no list: {error}; try again") from error
        yield page
        token = page.next_page
        if not token:
            return
        # Doubled at most: the next objects may be larger than these.
        fitting = limit * PAGE_BYTES // len(body)
        limit = max(1, min(fitting, 2 * limit, MOST_PAGE_OBJECTS))


async def _decoded(objects: Iterable[wire.Json], reader: Reader[T]) -> AsyncIterator[Versioned[T]]:
    turn_bytes = 0
    for raw in objects:
        turn_bytes += wire.size_bytes(raw)
        if turn_bytes > TURN_BYTES:
            turn_bytes = 0
            await asyncio.sleep(0)
        found = reader.read(raw)
        if reader.keeps(found):
            yield found
