"""What became of the pods of which no watch tells: asked of the API server, now and then.

Rule 1: a doubtful assumption goes when a GET *begun* `SETTLED_SECONDS` after its request
was given up still shows the pod unbound: by then the API server has given it up as well.
Rule 2: a confirmed one whose pod was never shown by the watch is asked after too: the pod
may have come and gone while the watch was down.
Rule 3: an API server that is away is asked after one pod, not after all.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiError, ApiNotFound, ApiUnavailable
from gpushare_plugin.extender.assumptions import Assumption, Assumptions, State
from gpushare_plugin.extender.posting import Clock
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.scheduling import Binder

log = event_logger(__name__)

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 10.0
CONFIRMED_SECONDS = 60.0
SETTLED_SECONDS = 60.0
"""The API server's `--request-timeout`, by default: no request is carried out later."""
GET_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Turn:
    """When an assumption is asked after, and how long after that it is again."""

    at_seconds: float
    wait_seconds: float


class Rechecking:
    """Asks after assumptions until they are settled."""

    def __init__(self, binder: Binder, assumptions: Assumptions, clock: Clock) -> None:
        """`clock` is monotonic, in seconds."""
        self._binder = binder
        self._assumptions = assumptions
        self._clock = clock
        self._turns: dict[tuple[int, State], _Turn] = {}
        self._wake = asyncio.Event()
        assumptions.on_question(self._wake.set)

    async def run(self) -> None:
        """Ask after all that is due, until cancelled."""
        while True:
            await self._something_is_due()
            due = [each for each in self._asked() if self._turn(each).at_seconds <= self._clock()]
            for each in due:
                self._put_off(each)
            for each in due:
                if not await self._ask_after(each):
                    break

    async def _something_is_due(self) -> None:
        self._wake.clear()
        asked = self._asked()
        self._turns = {_key(each): self._turn(each) for each in asked}
        next_seconds = min((turn.at_seconds for turn in self._turns.values()), default=None)
        wait_seconds = None if next_seconds is None else max(0.0, next_seconds - self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await self._wake.wait()

    def _asked(self) -> list[Assumption]:
        return [each for each in self._assumptions if each.state is not State.IN_FLIGHT]

    def _turn(self, assumption: Assumption) -> _Turn:
        return self._turns.get(_key(assumption)) or _first_turn(assumption)

    async def _ask_after(self, assumption: Assumption) -> bool:
        """Settle what can be; say whether the API server answers now."""
        begun_seconds = self._clock()
        pod = assumption.pod
        try:
            found = await self._binder.get_pod(pod.namespace, pod.name, timeout_seconds=GET_SECONDS)
        except ApiNotFound:
            found = None
        except ApiUnavailable:
            return False
        except ApiError as error:
            log.warning("bind_not_settled", pod=pod, uid=pod.uid, error=error)
            return True
        self._settle(assumption, found, begun_seconds)
        return True

    def _settle(self, assumption: Assumption, found: Pod | None, begun_seconds: float) -> None:
        if not self._assumptions.holds(assumption):
            return
        if found is None or found.uid != assumption.pod.uid:
            self._assumptions.settle(assumption.pod.uid)
            became = "gone"
        elif found.node_name:
            if assumption.state is State.CONFIRMED and found == assumption.pod:
                return
            self._assumptions.found(assumption, found, now_seconds=self._clock())
            became = f"bound to {found.node_name}"
        elif _is_settled(assumption, begun_seconds):
            self._assumptions.release(assumption)
            became = "unbound"
        else:
            return
        log.info("bind_settled", pod=assumption.pod, uid=assumption.pod.uid, became=became)

    def _put_off(self, assumption: Assumption) -> None:
        wait_seconds = self._turn(assumption).wait_seconds
        longer = min(max(LONGEST_SECONDS, wait_seconds), wait_seconds * 2)
        self._turns[_key(assumption)] = _Turn(self._clock() + wait_seconds, longer)


def _key(assumption: Assumption) -> tuple[int, State]:
    return assumption.number, assumption.state


def _first_turn(assumption: Assumption) -> _Turn:
    wait = CONFIRMED_SECONDS if assumption.state is State.CONFIRMED else FIRST_SECONDS
    return _Turn(assumption.since_seconds + wait, wait)


def _is_settled(assumption: Assumption, begun_seconds: float) -> bool:
    """Say whether a look begun then would have shown all that was ever asked for."""
    doubted = assumption.state is State.DOUBTFUL
    return doubted and begun_seconds - assumption.since_seconds >= SETTLED_SECONDS
