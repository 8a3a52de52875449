"""The verb bind: one pod, its cards chosen, assumed, and bound by one request.

Rule 1: nothing is awaited between looking at the room and assuming the cards, so two
binds never take the same units.
Rule 2: one bind a pod at a time: whoever asks the same meanwhile has the same answer.
Rule 3: a call ends within `BUDGET_SECONDS`, before kube-scheduler gives it up; the bind
goes on to its own end if the caller leaves.
Rule 4: what is not known in the end stays counted, and is asked after (`rechecking`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiError, ApiNotFound, AskError
from gpushare_plugin.extender.assumptions import State
from gpushare_plugin.extender.choosing import Choice, Choosing
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.posting import (
    LEAST_SECONDS,
    LOOK_SECONDS,
    NO_TIME,
    Claim,
    Clock,
    Fence,
    Posting,
)
from gpushare_plugin.extender.rechecking import Rechecking
from gpushare_plugin.extender.verdicts import BindOutcome, Verdict, bound_to, pod_gone
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.scheduling import Binder

log = event_logger(__name__)

BUDGET_SECONDS = 3.5
"""Of kube-scheduler's `httpTimeout`, which is 4 s or more."""

Counted = Callable[[BindOutcome, float], None]
"""Told of each bind: how it ended, and how many seconds it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindCall:
    """What kube-scheduler asks for."""

    namespace: str
    name: str
    uid: str
    node_name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Flight:
    call: BindCall
    task: asyncio.Task[str]


class PodBinding:
    """Answers bind, and asks after what was left unknown."""

    def __init__(  # noqa: PLR0913 - the seams of the one verb that writes
        self,
        cluster: Cluster,
        fits: Fits,
        binder: Binder,
        names: Dialect,
        *,
        clock: Clock,
        now_ns: Callable[[], int],
        counted: Counted,
        fence: Fence,
    ) -> None:
        """`clock` is monotonic, in seconds; `now_ns` is the time of day."""
        self._cluster = cluster
        self._fits = fits
        self._binder = binder
        self._clock = clock
        self._counted = counted
        self._choosing = Choosing(cluster, fits, names, now_ns)
        self._posting = Posting(binder, clock, fence)
        self._rechecking = Rechecking(binder, cluster.assumptions, clock)
        self._flights: dict[str, _Flight] = {}

    async def run(self) -> None:
        """Ask after what is not known yet, until cancelled."""
        await self._rechecking.run()

    async def bind(self, call: BindCall) -> str:
        """Bind a pod to a node; return "" or what is wrong, for the pod's event."""
        until_seconds = self._clock() + BUDGET_SECONDS
        while (flight := self._flights.get(call.uid)) is not None:
            answer = await asyncio.shield(flight.task)
            if flight.call == call:
                return answer
            self._landed(flight)
        task = asyncio.create_task(self._answer(call, until_seconds))
        flight = self._flights[call.uid] = _Flight(call, task)
        task.add_done_callback(lambda _: self._landed(flight))
        return await asyncio.shield(task)

    def _landed(self, flight: _Flight) -> None:
        if self._flights.get(flight.call.uid) is flight:
            del self._flights[flight.call.uid]

    async def _answer(self, call: BindCall, until_seconds: float) -> str:
        verdict = await self._verdict(call, until_seconds)
        seconds = self._clock() - (until_seconds - BUDGET_SECONDS)
        self._counted(verdict.outcome, seconds)
        _tell(call, verdict, seconds)
        return verdict.error

    async def _verdict(self, call: BindCall, until_seconds: float) -> Verdict:
        pod = self._cluster.pods.get(call.uid) or await self._read(call, until_seconds)
        if isinstance(pod, Verdict):
            return pod
        node_name = pod.node_name or self._confirmed_on(call.uid)
        if node_name:
            return bound_to(str(call), node_name, asked=call.node_name)
        try:
            ask = self._fits.ask_of(pod)
        except AskError as error:
            return Verdict(outcome=BindOutcome.BAD_POD, error=str(error))
        choice = self._choosing.choose(pod, ask, call.node_name)
        if isinstance(choice, Verdict):
            return choice
        claim = self._claim(pod, choice)
        return await self._posting.send(choice.binding, claim, until_seconds=until_seconds)

    async def _read(self, call: BindCall, until_seconds: float) -> Pod | Verdict:
        """Return a pod that the watch does not know."""
        left_seconds = min(LOOK_SECONDS, until_seconds - self._clock())
        if left_seconds < LEAST_SECONDS:
            return Verdict(outcome=BindOutcome.HELD_BACK, error=NO_TIME)
        try:
            pod = await self._binder.get_pod(
                call.namespace, call.name, timeout_seconds=left_seconds
            )
        except ApiNotFound:
            return pod_gone(str(call), call.uid)
        except ApiError as error:
            return Verdict(outcome=BindOutcome.POD_UNREAD, error=str(error))
        return pod if pod.uid == call.uid else pod_gone(str(call), call.uid)

    def _confirmed_on(self, uid: str) -> str:
        assumed = self._cluster.assumptions.of(uid)
        found = (each for each in assumed if each.state is State.CONFIRMED)
        return next((each.pod.node_name for each in found), "")

    def _claim(self, pod: Pod, choice: Choice) -> Claim:
        """Count the pod on its cards from now on."""
        assumptions = self._cluster.assumptions
        if not choice.cards:
            return Claim(assumptions, None, self._clock)
        annotations = {**pod.annotations, **choice.binding.annotations}
        bound = replace(pod, node_name=choice.binding.node_name, annotations=annotations)
        assumed = assumptions.assume(bound, choice.cards, now_seconds=self._clock())
        return Claim(assumptions, assumed, self._clock)


def _tell(call: BindCall, verdict: Verdict, seconds: float) -> None:
    outcome = verdict.outcome.value
    if not verdict.error:
        log.info(
            "bound",
            pod=call,
            uid=call.uid,
            node=call.node_name,
            outcome=outcome,
            seconds=seconds,
        )
        return
    log.warning(
        "not_bound",
        pod=call,
        uid=call.uid,
        node=call.node_name,
        outcome=outcome,
        seconds=seconds,
        error=verdict.error,
    )
