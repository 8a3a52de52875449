"""Relists that are asked for: who asks waits, and what the informer does meanwhile ends.

Rule 1: a list that began before it was asked for is no answer: the next one is.
Rule 2: all who ask before a list begins are answered by that one.
Rule 3: a list that was asked for is not cut short by the next who ask.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpushare_plugin.errors import ApiError, ApiUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One who waits for a list."""

    done: asyncio.Future[None]
    until_seconds: float
    """By the loop's clock."""


class Relists:
    """Who waits for a list that has not begun yet."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._waiting: list[Asked] = []
        self._scope: asyncio.Timeout | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def asked(self, *, timeout_seconds: float) -> None:
        """Ask for a list, and return when it is held; raises ApiError."""
        loop = asyncio.get_running_loop()
        asked = Asked(done=loop.create_future(), until_seconds=loop.time() + timeout_seconds)
        self._waiting.append(asked)
        self._end_scope()
        try:
            async with asyncio.timeout(timeout_seconds):
                await asked.done
        except TimeoutError:
            raise self.late(timeout_seconds) from None
        finally:
            if asked in self._waiting:
                self._waiting.remove(asked)

    def late(self, seconds: float) -> ApiUnavailable:
        """Return the error of a list that did not come in time."""
        return ApiUnavailable(
            f"list {self._what}: not whole within {seconds:.3g} s; what was known before is kept"
        )

    @asynccontextmanager
    async def until_asked(self) -> AsyncIterator[None]:
        """End what is done within, wherever it waits, once somebody asks."""
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scope = scope
                if self._waiting:
                    self._end_scope()
                yield
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._scope = None

    def take(self) -> tuple[Asked, ...]:
        """Return who waits now; a list begins for them."""
        taken, self._waiting = tuple(self._waiting), []
        return taken

    def _end_scope(self) -> None:
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())
            self._scope = None


def answer(asked: tuple[Asked, ...], error: ApiError | None = None) -> None:
    """Tell those who waited that the list is held, or why not."""
    for each in asked:
        if each.done.done():
            continue
        if error is None:
            each.done.set_result(None)
        else:
            each.done.set_exception(error)
