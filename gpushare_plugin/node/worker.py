"""A thread for calls that block and may hang.

A hung NVML call must neither stop the event loop nor the end of the process, so
this is a daemon thread: asyncio's own executor is waited for at exit.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerThread:
    """Runs one blocking call after the other."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function in the thread and return what it returns, or raise what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                outcome = function(*arguments)
            except BaseException as error:  # noqa: BLE001  # handed on to who awaits it
                _post(loop, _fail, answer, error)
            else:
                _post(loop, _succeed, answer, outcome)

        self._calls.put(run)
        return await answer

    def close(self) -> None:
        """Let the thread end once the calls that were asked for have come back."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


async def in_thread(name: str, function: Callable[..., T], *arguments: Any) -> T:
    """Run one call in a thread of its own, as `WorkerThread.call`."""
    worker = WorkerThread(name)
    try:
        return await worker.call(function, *arguments)
    finally:
        worker.close()


def _post(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    # The loop may be closed by the time that a call which hung comes back.
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, *arguments)


def _succeed(answer: "asyncio.Future[T]", outcome: T) -> None:
    if not answer.done():
        answer.set_result(outcome)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
