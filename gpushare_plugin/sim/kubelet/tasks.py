"""The tasks of one life of the kubelet.

A task group must be left by the task that entered it, but tests and the control
socket start and stop a kubelet from different tasks. So the group is this one:
it is ended by a call, and a task's failure is raised there.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class LifeTasks:
    """Named tasks that end together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Start a task that lives no longer than the kubelet."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def end(self) -> None:
        """Cancel every task and wait for all; raise what any of them failed with."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if failures:
            raise ExceptionGroup("tasks of the kubelet failed", failures)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        # One that failed is kept for `end` to tell.
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)
