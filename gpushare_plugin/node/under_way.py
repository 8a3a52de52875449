"""What is under way in one life of a plugin: its streams, and the calls that a pod hangs on."""

import asyncio
from contextlib import suppress


class Streams:
    """How many ListAndWatch streams are open, and when that changes."""

    def __init__(self) -> None:
        self.open = 0
        self.opened = asyncio.Event()
        """Set once a first stream was opened."""
        self.all_ended = asyncio.Event()
        """Set when the last open stream has ended."""

    def begin(self) -> None:
        """Count a stream in."""
        self.open += 1
        self.opened.set()
        self.all_ended.clear()

    def end(self) -> None:
        """Count a stream out."""
        self.open -= 1
        if self.open == 0:
            self.all_ended.set()


class Calls:
    """How many calls are under way."""

    def __init__(self) -> None:
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Count a call in."""
        self._under_way += 1
        self._idle.clear()

    def end(self) -> None:
        """Count a call out."""
        self._under_way -= 1
        if self._under_way == 0:
            self._idle.set()

    async def answered(self, *, timeout_seconds: float) -> None:
        """Return once none is under way, or after the time-out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
