"""Drive a simulated scheduler in another process: the same verbs as `SimScheduler`.

Rule 1: each call has a connection of its own, so calls may run side by side,
and one that is cancelled leaves nothing behind.
Rule 2: what is raised there is raised here, as the same class.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.control_socket import ask
from gpushare_plugin.sim.json_values import decode
from gpushare_plugin.sim.scheduler import failures
from gpushare_plugin.sim.scheduler.failures import WaitExpiredError
from gpushare_plugin.sim.scheduler.states import ExtenderCall, Outcome, SchedulerState

_CONNECT_RETRY_SECONDS = 0.02


class SchedulerControl:
    """A client of one control socket; needs no closing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ready(self, *, timeout_seconds: float = 5.0) -> SchedulerState:
        """Wait until the scheduler's process serves the control socket.

        Raises WaitExpiredError if it does not in time.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                # No event comes from a process that is not up yet.
                while True:
                    with suppress(FileNotFoundError, ConnectionError):
                        return await self.state()
                    await asyncio.sleep(_CONNECT_RETRY_SECONDS)
        except TimeoutError:
            text = f"nobody serves the control socket {self._path}"
            raise WaitExpiredError(text) from None

    async def pause(self) -> None:
        """As `SimScheduler.pause`."""
        await self._ask("pause")

    async def resume(self) -> None:
        """As `SimScheduler.resume`."""
        await self._ask("resume")

    async def state(self) -> SchedulerState:
        """As `SimScheduler.state`."""
        return _state(await self._ask("state"))

    async def calls(self, *, after: int = 0) -> tuple[ExtenderCall, ...]:
        """As `SimScheduler.calls`."""
        calls: tuple[ExtenderCall, ...] = decode(
            tuple[ExtenderCall, ...], await self._ask("calls", after=after)
        )
        return calls

    async def newer_state(self, than: int, *, timeout_seconds: float = 5.0) -> SchedulerState:
        """As `SimScheduler.newer_state`."""
        return _state(await self._ask("newer_state", than=than, timeout_seconds=timeout_seconds))

    async def leading(self, *, timeout_seconds: float = 5.0) -> SchedulerState:
        """As `SimScheduler.leading`."""
        return _state(await self._ask("leading", timeout_seconds=timeout_seconds))

    async def idle(
        self, *, known: tuple[str, ...] = (), timeout_seconds: float = 5.0
    ) -> SchedulerState:
        """As `SimScheduler.idle`."""
        return _state(await self._ask("idle", known=known, timeout_seconds=timeout_seconds))

    async def attempted(
        self, pod: str, *, attempt: int = 1, timeout_seconds: float = 5.0
    ) -> Outcome:
        """As `SimScheduler.attempted`."""
        answer = await self._ask(
            "attempted", pod=pod, attempt=attempt, timeout_seconds=timeout_seconds
        )
        outcome: Outcome = decode(Outcome, answer)
        return outcome

    async def _ask(self, verb: str, **parameters: Any) -> Any:
        return await ask(self._path, verb, failures=failures, **parameters)


def _state(value: Any) -> SchedulerState:
    state: SchedulerState = decode(SchedulerState, value)
    return state
