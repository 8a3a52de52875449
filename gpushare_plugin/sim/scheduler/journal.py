"""What happened so far, and waiting for more to happen.

Rule: whoever changes anything that the state shows calls `changed`; waiting is on that call,
so nothing polls.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from gpushare_plugin.sim.scheduler.failures import WaitExpiredError
from gpushare_plugin.sim.scheduler.states import ExtenderCall, Outcome

_OUTCOMES_KEPT = 10_000


class Journal:
    """The log of calls, the last outcomes, and the condition that waits hang on."""

    def __init__(self, *, call_log_entries: int) -> None:
        self.version = 0
        self.last_number = 0
        self.calls: deque[ExtenderCall] = deque(maxlen=call_log_entries)
        self.outcomes: dict[str, Outcome] = {}
        self.counts: Counter[str] = Counter()
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

    def next_number(self) -> int:
        """Return the number of a call that ended just now."""
        self.last_number += 1
        return self.last_number

    def called(self, call: ExtenderCall) -> None:
        """Write down a call of an extender."""
        self.calls.append(call)
        self.changed()

    def ended(self, pod: str, outcome: Outcome) -> None:
        """Write down how an attempt at a pod ended."""
        self.outcomes.pop(pod, None)
        self.outcomes[pod] = outcome
        while len(self.outcomes) > _OUTCOMES_KEPT:
            del self.outcomes[next(iter(self.outcomes))]
        self.counts[outcome.result.value] += 1
        self.counts["preempted"] += len(outcome.victims)
        self.changed()
