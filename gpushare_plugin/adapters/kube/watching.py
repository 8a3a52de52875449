"""One life of a watch: from a version on, until the server ends it or it breaks.

Rule 1: a watch whose line is cut short, or that says nothing though bookmarks are due,
is an error: who resumes does so from the last version that came whole.
Rule 2: bytes are taken as they come and cut into lines; each line is decoded alone.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.failures import Answer, Call
from gpushare_plugin.adapters.kube.lines import Lines
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.errors import ApiUnavailable
from gpushare_plugin.ports.cluster import Opened, T, WatchEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTimes:
    """How long a watch may last, and be silent."""

    life_seconds: int = 300
    """The server ends it then, or up to twice as late; a resumed one misses nothing."""
    silence_seconds: float = 90.0
    """The API server sends a bookmark about once a minute, up to a quarter later."""


async def watched(
    transport: Transport, call: Call, reader: Reader[T], *, silence_seconds: float
) -> AsyncGenerator[WatchEvent[T], None]:
    """Yield what the watch tells; close it (`aclosing`). Raises ApiError."""
    lines = Lines()
    async with aclosing(transport.chunks(call, silence_seconds=silence_seconds)) as chunks:
        async for chunk in chunks:
            if not chunk:
                yield Opened()
            for line in lines.feed(chunk):
                yield _told(transport, call, reader, line)
    if lines.begun_bytes:
        raise ApiUnavailable(
            f"{call}: the watch broke off within an event, {lines.begun_bytes} bytes into it;"
            " resume from the last version"
        )


def _told(transport: Transport, call: Call, reader: Reader[T], line: bytes) -> WatchEvent[T]:
    try:
        event = reader.event(line)
    except wire.Garbled as error:
        raise ApiUnavailable(f"{call}: a line is no event: {error}; watch again") from error
    if isinstance(event, Answer):
        raise transport.refused(call, event)
    return event
