"""The calls that came in, and waiting for anything to change.

Rule: whoever changes something that a test can see calls `changed`; waiting is
on that call, so nothing polls.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpushare_plugin.sim.apiserver.failures import WaitExpiredError
from gpushare_plugin.sim.apiserver.states import CallRecord


class Journal:
    """The log of calls, and the condition that waits hang on."""

    def __init__(self, *, call_log_entries: int) -> None:
        self.version = 0
        self.last_number = 0
        self._calls: dict[int, CallRecord] = {}
        self._call_log_entries = call_log_entries
        self._next_change = asyncio.Event()

    def changed(self) -> None:
        """Wake everyone who waits."""
        self.version += 1
        self._next_change.set()
        self._next_change = asyncio.Event()

    async def until(
        self, holds: Callable[[], bool], *, failure: Callable[[], str], timeout_seconds: float
    ) -> None:
        """Return as soon as `holds` does; raise WaitExpiredError with `failure`'s text if never."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not holds():
                    await self._next_change.wait()
        except TimeoutError:
            raise WaitExpiredError(f"{failure()} (waited {timeout_seconds:g} s)") from None

    # --------------------------------------------------------------------- entries

    def next_number(self) -> int:
        """Return the number of a call that came in just now."""
        self.last_number += 1
        return self.last_number

    def write(self, record: CallRecord) -> None:
        """Write a call down, or again with what became of it since."""
        self._calls[record.number] = record
        while len(self._calls) > self._call_log_entries:
            del self._calls[next(iter(self._calls))]
        self.changed()

    def note(self, number: int, **fields: Any) -> None:
        """Add to what is written down of a call, unless it is forgotten already."""
        if number in self._calls:
            self.write(replace(self._calls[number], **fields))

    def calls(self, *, after: int) -> tuple[CallRecord, ...]:
        """Return the calls with a number above `after`, oldest first."""
        return tuple(call for call in self._calls.values() if call.number > after)
