"""Whether this extender may answer just now, asked before each of the scheduler's calls.

Rule: a picture of the cluster that nobody keeps true is worse than no answer, since a
scheduler that gets an error tries again, and one that gets a wrong card does not.
"""

from collections.abc import Callable, Mapping
from typing import Protocol


class Gate(Protocol):
    """Says why not now."""

    @property
    def leads(self) -> bool:
        """Whether it is this extender that the scheduler should have asked."""

    async def refusal(self, *, writing: bool) -> str | None:
        """Return why this call cannot be answered now; None if it can.

        `writing`: the call would bind a pod, so being the one who leads must be certain.
        """


class Watch(Protocol):
    """What one informer tells of itself."""

    @property
    def stale_seconds(self) -> float:
        """How long ago the server last gave a sign of life."""


class Freshness:
    """Refuses while a picture is not whole yet, or older than is allowed. Everybody leads."""

    def __init__(
        self,
        watches: Mapping[str, Watch],
        *,
        synced: Callable[[], bool],
        limit_seconds: float,
    ) -> None:
        """`watches` by what they watch; `synced` says whether all was told that was there."""
        self._watches = watches
        self._synced = synced
        self._limit_seconds = limit_seconds

    @property
    def leads(self) -> bool:
        """Whether it is this extender that the scheduler should have asked: always."""
        return True

    async def refusal(self, *, writing: bool) -> str | None:
        """Return which picture is not there yet or too old; None if none is."""
        del writing
        if not self._synced():
            return "the extender has just begun and does not know the cluster yet; try again"
        for what, watch in self._watches.items():
            seconds = watch.stale_seconds
            if seconds > self._limit_seconds:
                return (
                    f"the API server has told nothing of {what} for {seconds:.0f} s (limit"
                    f" {self._limit_seconds:g} s, --stale-seconds): what is known may be wrong;"
                    " look at the extender's log for watch_failing"
                )
        return None
