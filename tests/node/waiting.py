"""Waiting for what no event tells."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

HANGS_SECONDS = 5.0


async def eventually(holds: Callable[[], bool | Coroutine[Any, Any, bool]]) -> None:
    """Return once it holds, asked again and again; only what never does takes long."""
    async with asyncio.timeout(HANGS_SECONDS):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)
