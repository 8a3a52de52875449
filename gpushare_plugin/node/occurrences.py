"""Kubernetes events on their way out: told at once, written when the API server takes them.

Rule: telling never waits and never fails. What cannot be written is tried for a
while, then dropped: an event is a courtesy, the log and the metrics are the record.
"""

import asyncio
from collections import deque

from gpushare_plugin.errors import ApiError, ApiUnavailable
from gpushare_plugin.logs import event_logger
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports.cluster import EventWriter, Occurrence

log = event_logger(__name__)

MOST_WAITING = 100


class Occurrences:
    """Keeps what is to be written, oldest first; the oldest go where there are too many."""

    def __init__(self) -> None:
        self._waiting: deque[Occurrence] = deque(maxlen=MOST_WAITING)
        self._told = asyncio.Event()

    def tell(self, occurrence: Occurrence) -> None:
        """Take an occurrence; returns at once."""
        self._waiting.append(occurrence)
        self._told.set()

    async def write(self, writer: EventWriter) -> None:
        """Write what is told, until cancelled."""
        back_off = BackOff()
        while True:
            await self._told.wait()
            self._told.clear()
            while self._waiting:
                occurrence = self._waiting[0]
                try:
                    await writer.record(occurrence)
                    back_off.reset()
                except ApiUnavailable:
                    await asyncio.sleep(back_off.next_seconds())
                    continue
                except ApiError as error:
                    log.warning("event_not_written", reason=occurrence.reason, error=error)
                if self._waiting and self._waiting[0] is occurrence:
                    self._waiting.popleft()
