"""What happened to the kubelet so far, and waiting for more to happen.

Rule 1: the journal outlives restarts of the kubelet; the devices do not.
Rule 2: whoever changes anything that the state shows calls `changed`; waiting
is on that call, so nothing polls.
Knows no gRPC and no devices.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from gpushare_plugin.sim.kubelet.failures import WaitExpiredError
from gpushare_plugin.sim.kubelet.states import RegistrationRecord, RpcRecord, StreamState


class Journal:
    """The logs, and the condition that waits hang on."""

    def __init__(self, *, rpc_log_entries: int) -> None:
        self.version = 0
        self.registrations: list[RegistrationRecord] = []
        self.rejections: list[RegistrationRecord] = []
        self.rpcs: deque[RpcRecord] = deque(maxlen=rpc_log_entries)
        self._streams: list[StreamState] = []
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

    def registration(self, record: RegistrationRecord) -> None:
        """Write down one call of Register."""
        (self.rejections if record.error else self.registrations).append(record)
        self.changed()

    def accepted(self, resource: str) -> int:
        """Count the accepted registrations of one resource."""
        return sum(1 for record in self.registrations if record.resource == resource)

    def rpc(self, record: RpcRecord) -> None:
        """Write down one finished call."""
        self.rpcs.append(record)
        self.changed()

    # --------------------------------------------------------------------- streams

    @property
    def streams(self) -> tuple[StreamState, ...]:
        """Every stream so far, oldest first."""
        return tuple(self._streams)

    def stream_opened(self, *, resource: str, endpoint: str) -> int:
        """Write down a new stream; return the number to name it by."""
        self._streams.append(StreamState(resource=resource, endpoint=endpoint))
        self.changed()
        return len(self._streams) - 1

    def stream_message(self, number: int, *, size_bytes: int) -> None:
        """Count one message of a stream."""
        stream = self._streams[number]
        self._streams[number] = replace(stream, messages=stream.messages + 1, last_bytes=size_bytes)
        self.changed()

    def stream_ended(self, number: int, *, error: str) -> None:
        """Write down why a stream ended."""
        self._streams[number] = replace(self._streams[number], open=False, error=error)
        self.changed()


def stopwatch() -> Callable[[], float]:
    """Start a clock; calling the result tells the seconds since."""
    started = time.perf_counter()
    return lambda: time.perf_counter() - started
