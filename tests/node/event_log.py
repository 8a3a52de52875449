"""The daemon's log as tests read it: events with fields, not prose."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = "gpushare_plugin"


class EventLog(logging.Handler):
    """Every event so far, and waiting for one."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.events: list[tuple[str, dict[str, str]]] = []
        self._told: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._mutex = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "gpushare_fields", {})
        with self._mutex:
            texts = {key: str(value) for key, value in fields.items()}
            self.events.append((record.getMessage(), texts | {"level": record.levelname}))
            if self._told is not None and not self._told[0].is_closed():
                loop, event = self._told
                loop.call_soon_threadsafe(event.set)

    def of(self, event: str, **fields: str) -> list[dict[str, str]]:
        """The fields of each such event so far."""
        return [
            found
            for name, found in list(self.events)
            if name == event and fields.items() <= found.items()
        ]

    async def said(
        self, event: str, *, times: int = 1, timeout_seconds: float = 5.0, **fields: str
    ) -> dict[str, str]:
        """Wait until the event was logged so often with these fields; return its fields."""
        told = asyncio.Event()
        with self._mutex:
            self._told = (asyncio.get_running_loop(), told)
        try:
            async with asyncio.timeout(timeout_seconds):
                while len(self.of(event, **fields)) < times:
                    told.clear()
                    if len(self.of(event, **fields)) < times:
                        await told.wait()
        except TimeoutError:
            raise AssertionError(f"never said {event} {fields}; said {self.events}") from None
        return self.of(event, **fields)[times - 1]


@contextmanager
def listening() -> Iterator[EventLog]:
    """Hear every event that the package logs."""
    logger = logging.getLogger(LOGGER)
    level, handler = logger.level, EventLog()
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
