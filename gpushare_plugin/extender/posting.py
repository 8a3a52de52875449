"""One Binding, sent and settled: what became of it, for the ledger and for the caller.

    2xx ─────────────▶ bound
    404, 403, 429 …──▶ nothing was done
    409, 422 ────────▶ a GET tells: bound (here, elsewhere), gone, or to be sent again
    time-out, 5xx … ─▶ a GET tells: bound (here, elsewhere), gone; else it is doubtful

Rule 1: that a GET shows the pod unbound says nothing of a request of unknown outcome.
Rule 2: nothing is sent that could not be looked up within the same budget.
Rule 3: whatever ends this (a cancelled task, a fault of ours) leaves no claim behind that
looks as if its request were still under way.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiConflict, ApiError, ApiNotFound, ApiThrottled, ApiUnavailable
from gpushare_plugin.extender.assumptions import Assumption, Assumptions
from gpushare_plugin.extender.verdicts import BindOutcome, Verdict, bound_to, pod_gone
from gpushare_plugin.ports.scheduling import Binder, Binding

LOOK_SECONDS = 1.0
"""For one GET of a pod; so much is kept for it when the Binding is sent."""
LEAST_SECONDS = 0.3
"""Nothing is asked with less time than that for its answer."""
NO_TIME = "the bind was not sent: no time was left for it; it will be tried again"
MOST_TRIES = 3
PAUSE_SECONDS = 0.05

Clock = Callable[[], float]
Fence = Callable[[float], str]
"""Says why nothing may be written for so many seconds from now; empty if it may."""


class Claim:
    """What a Binding holds of the ledger while it is under way; as a context, to its end."""

    def __init__(
        self, assumptions: Assumptions, assumption: Assumption | None, clock: Clock
    ) -> None:
        """`assumption` is None for a pod that holds nothing."""
        self._assumptions = assumptions
        self._assumption = assumption
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.doubt()

    def found(self, pod: Pod | None = None) -> None:
        """The pod is bound as was asked, or is as it was read."""
        claimed = self._take()
        if claimed is not None:
            now_seconds = self._clock()
            self._assumptions.found(claimed, pod or claimed.pod, now_seconds=now_seconds)

    def gone(self) -> None:
        """There is no such pod any more."""
        claimed = self._take()
        if claimed is not None:
            self._assumptions.settle(claimed.pod.uid)

    def refused(self) -> None:
        """Nothing was done, and nothing will be."""
        claimed = self._take()
        if claimed is not None:
            self._assumptions.refused(claimed)

    def doubt(self) -> None:
        """Nobody knows; nothing changes if it was told before."""
        claimed = self._take()
        if claimed is not None:
            self._assumptions.doubt(claimed, now_seconds=self._clock())

    def _take(self) -> Assumption | None:
        claimed, self._assumption = self._assumption, None
        return claimed


class _Unseen(Enum):
    """Instead of a pod: what a GET told of it."""

    GONE = "gone"
    UNTOLD = "untold"


class Posting:
    """Sends Bindings."""

    def __init__(self, binder: Binder, clock: Clock, fence: Fence) -> None:
        """`clock` is monotonic, in seconds."""
        self._binder = binder
        self._clock = clock
        self._fence = fence

    async def send(self, binding: Binding, claim: Claim, *, until_seconds: float) -> Verdict:
        """Carry a Binding out, and settle its claim; it ends by `until_seconds`."""
        with claim:
            tries_left = MOST_TRIES
            while True:
                tries_left -= 1
                verdict = await self._try(binding, claim, until_seconds, last=not tries_left)
                if verdict is not None:
                    return verdict
                await asyncio.sleep(PAUSE_SECONDS)

    async def _try(
        self, binding: Binding, claim: Claim, until_seconds: float, *, last: bool
    ) -> Verdict | None:
        """Send once; None if it had better be sent again."""
        left_seconds = until_seconds - LOOK_SECONDS - self._clock()
        held_back = self._held_back(left_seconds)
        if held_back:
            claim.refused()
            return Verdict(outcome=BindOutcome.HELD_BACK, error=held_back)
        try:
            await self._binder.bind(binding, timeout_seconds=left_seconds)
        except ApiUnavailable as error:
            if isinstance(error, ApiThrottled) and not error.begun:
                return _refused(claim, error)
            seen = await self._look(binding, until_seconds)
            return _seen_bound(binding, claim, seen) or _unknown(binding, claim, error)
        except ApiConflict as error:
            seen = await self._look(binding, until_seconds)
            verdict = _seen_bound(binding, claim, seen)
            if verdict is None and isinstance(seen, Pod) and not (seen.terminating or last):
                return None
            return verdict or _refused(claim, error)
        except ApiNotFound:
            claim.gone()
            return pod_gone(_name(binding), binding.uid)
        except ApiError as error:
            return _refused(claim, error)
        claim.found()
        return Verdict(outcome=BindOutcome.BOUND)

    def _held_back(self, left_seconds: float) -> str:
        if left_seconds < LEAST_SECONDS:
            return NO_TIME
        return self._fence(left_seconds)

    async def _look(self, binding: Binding, until_seconds: float) -> Pod | _Unseen:
        left_seconds = min(LOOK_SECONDS, until_seconds - self._clock())
        if left_seconds <= 0:
            return _Unseen.UNTOLD
        try:
            pod = await self._binder.get_pod(
                binding.namespace, binding.name, timeout_seconds=left_seconds
            )
        except ApiNotFound:
            return _Unseen.GONE
        except ApiError:
            return _Unseen.UNTOLD
        return pod if pod.uid == binding.uid else _Unseen.GONE


def _seen_bound(binding: Binding, claim: Claim, seen: Pod | _Unseen) -> Verdict | None:
    """Return the verdict if the GET settled it; None if it did not."""
    if seen is _Unseen.GONE:
        claim.gone()
        return pod_gone(_name(binding), binding.uid)
    if seen is _Unseen.UNTOLD or not seen.node_name:
        return None
    claim.found(seen)
    return bound_to(_name(binding), seen.node_name, asked=binding.node_name)


def _unknown(binding: Binding, claim: Claim, error: ApiError) -> Verdict:
    claim.doubt()
    return Verdict(
        outcome=BindOutcome.UNKNOWN,
        error=(
            f"outcome unknown: it is not known yet whether {_name(binding)} was bound to"
            f" {binding.node_name}, and its share stays counted until it is: {error}"
        ),
    )


def _refused(claim: Claim, error: ApiError) -> Verdict:
    claim.refused()
    return Verdict(outcome=BindOutcome.REFUSED, error=str(error))


def _name(binding: Binding) -> str:
    return f"{binding.namespace}/{binding.name}"
