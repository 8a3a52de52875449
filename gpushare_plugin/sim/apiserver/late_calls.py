"""Calls that are carried out late, whether or not their clients still wait.

Rule 1: a real server works on after its client has left, up to its own request
time-out; a call here does so for as long as it was told.
Rule 2: a refusal that nobody waits for any more is dropped with the call.
"""

import asyncio

from gpushare_plugin.sim.apiserver.calls import Answer, Call, Calls


class LateCalls:
    """The calls that are still to be carried out."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._tasks: set[asyncio.Task[Answer]] = set()

    async def answer(self, call: Call, *, seconds: float) -> Answer:
        """Carry a call out after so long; who leaves before does not stop it."""
        task = asyncio.create_task(self._later(call, seconds), name="a call carried out late")
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Drop what is not carried out yet."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _later(self, call: Call, seconds: float) -> Answer:
        await asyncio.sleep(seconds)
        return self._calls.answer(call)

    def _over(self, task: asyncio.Task[Answer]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Looked at here: nobody else may.
            task.exception()
