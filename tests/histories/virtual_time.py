"""An event loop whose clock jumps: whoever sleeps an hour wakes at once, in the right order."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Waits for nobody: the time that it would wait for has passed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_seconds = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing is left that could happen")
        self.now_seconds += max(0.0, timeout)
        return []


class VirtualTime(asyncio.SelectorEventLoop):
    """A loop in virtual time, for code that opens no socket and starts no thread."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(main)
