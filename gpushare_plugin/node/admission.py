"""Which pod is the kubelet admitting, and which pod holds what: PodResources, asked sparingly.

Rule 1: a call of the kubelet waits for this for at most a budget; without an answer
the call goes on, the pod's name being unknown.
Rule 2: all questions go under one limiter, well below the kubelet's own (100 a
second, 10 at once, which it shares among everybody who asks).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpushare_plugin.core.association import (
    NO_POD,
    Admissions,
    Caller,
    Known,
    ListedPod,
    NoPod,
    PodName,
    Unclear,
    called,
    listed,
)
from gpushare_plugin.core.pods import requested_units
from gpushare_plugin.errors import PodResourcesError, PodResourcesLimited
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.ports import PodResources

log = event_logger(__name__)

CALL_BUDGET_SECONDS = 0.1
SPEC_SECONDS = 0.5
"""How long a call waits for the watch to bring the spec of its pod."""
ENDING_SECONDS = 0.1
"""The same where the pod of its name is to end: mostly it is that one, deleted meanwhile."""
RETRY_SECONDS = 0.01
QUIET_SECONDS = 0.2
BETWEEN_LISTS_SECONDS = 0.5
SLOW_TICK_SECONDS = 30.0
UNSETTLED_TICK_SECONDS = 5.0
"""The tick after an allocation or a failure, for as long as the slow one would take."""
LISTS_A_SECOND = 50.0
LISTS_AT_ONCE = 5.0

_ANSWERS: Mapping[type[Caller], str] = {Known: "known", NoPod: "none", Unclear: "unclear"}


class Limiter:
    """A bucket of tokens that fills with time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = LISTS_AT_ONCE
        self._filled_seconds = clock()

    def take(self) -> bool:
        """Take a token if there is one."""
        now = self._clock()
        self._tokens = min(
            LISTS_AT_ONCE, self._tokens + (now - self._filled_seconds) * LISTS_A_SECOND
        )
        self._filled_seconds = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Whose call it is, and what that pod was listed with during it."""

    caller: Caller = NO_POD
    listed: ListedPod | None = None
    guessed: bool = False
    """Several pods could be the one, and this is the one that came first."""
    pods: tuple[ListedPod, ...] = ()
    """All pods as listed during the call, or before it where that failed."""


class Admission:
    """Knows the pod of a call, and keeps the last account of who holds what."""

    def __init__(
        self,
        pod_resources: PodResources,
        resource_name: str,
        metrics: NodeMetrics,
        clock: Callable[[], float],
        specs: PodSpecs,
        limiter: Limiter | None = None,
    ) -> None:
        self._pod_resources = pod_resources
        self._resource_name = resource_name
        self._metrics = metrics
        self._clock = clock
        self._specs = specs
        self._listeners: list[Callable[[], None]] = []
        self._limiter = limiter or Limiter(clock)
        self._admissions = Admissions()
        self._wanted = asyncio.Event()
        self._failing = False
        self._unsettled_at_seconds = clock()
        self.pods: tuple[ListedPod, ...] | None = None
        """The pods as last listed; None while that is not known."""
        self.pods_come = 0
        """How many pods the watch had told of when that listing began."""
        self.pods_revision = 0
        """All that the watch had told when that listing began."""

    async def pod_of_call(self) -> Call:
        """Return the pod that the present call of the kubelet is for; never raises."""
        try:
            async with asyncio.timeout(CALL_BUDGET_SECONDS):
                pods = await self._list_with_retry()
        except (TimeoutError, PodResourcesError) as error:
            log.debug("pod_lookup_failed", error=error)
            return self._unlisted()
        caller, answer = await self._judged(pods)
        self._metrics.pod_lookups.labels(answer).inc()
        return Call(
            caller=caller,
            listed=self._listed(caller, pods),
            guessed=answer == "guessed",
            pods=tuple(pods),
        )

    def _unlisted(self) -> Call:
        """Return the call where the kubelet does not tell: if one pod alone waits, it is that one.

        A guess: another one may have come of which the watch has not told yet.
        """
        pods = self.pods or ()
        past = {each.pod for each in self._with_waits(pods) if each.waits is False}
        waiting = [
            name
            for each in self._specs.pods
            if requested_units(each, self._resource_name)
            and (name := PodName(namespace=each.namespace, name=each.name)) not in past
            and self._specs.have([name], self._resource_name)
        ]
        if len(waiting) != 1:
            self._metrics.pod_lookups.labels("failed").inc()
            return Call(pods=pods)
        self._metrics.pod_lookups.labels("guessed").inc()
        caller = Known(pod=waiting[0])
        log.info("pod_guessed", pod=caller.pod, because="the kubelet did not list its pods in time")
        return Call(caller=caller, listed=self._listed(caller, pods), guessed=True, pods=pods)

    def _listed(self, caller: Caller, pods: Sequence[ListedPod]) -> ListedPod | None:
        """Return the caller as it was listed: of two pods of the name the one that waits."""
        if not isinstance(caller, Known):
            return None
        named = [each for each in self._with_waits(pods) if each.pod == caller.pod]
        named.sort(key=lambda each: (not each.waits, each.holds_devices))
        return named[0] if named else None

    def of_resource(self, resource_name: str) -> "Admission":
        """Return one for another resource of this node, under the same limiter."""
        return Admission(
            self._pod_resources,
            resource_name,
            self._metrics,
            self._clock,
            self._specs,
            self._limiter,
        )

    async def _judged(self, pods: Sequence[ListedPod]) -> tuple[Caller, str]:
        """Return whose call it is, and by which word it is counted."""
        before = self._admissions
        caller = self._judge(pods)
        if not self._specs.watching:
            return caller, _ANSWERS[type(caller)]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._spec_seconds(caller)):
                # Each spec that comes may tell that it is another one after all.
                while not self._has_spec(caller):
                    await self._specs.changed()
                    self._admissions = before
                    caller = self._judge(pods)
        if isinstance(caller, Unclear):
            waiting = {each.pod for each in self._with_waits(pods) if each.waits}
            in_order = self._specs.order(waiting & set(caller.pods))
            if in_order:
                log.info("pod_guessed", pod=in_order[0], because="several pods wait")
                return Known(pod=in_order[0]), "guessed"
        return caller, _ANSWERS[type(caller)]

    def _spec_seconds(self, caller: Caller) -> float:
        ends = isinstance(caller, Known) and self._specs.ends_unserved(
            caller.pod, self._resource_name
        )
        return ENDING_SECONDS if ends else SPEC_SECONDS

    def _has_spec(self, caller: Caller) -> bool:
        """Say whether the specs of all that may be the caller are known.

        Where nobody may be, the specs are behind the kubelet: somebody does call.
        """
        match caller:
            case Known(pod=pod):
                return self._specs.have([pod], self._resource_name)
            case Unclear(pods=several):
                return self._specs.have(several, self._resource_name)
            case NoPod():
                return False

    def _judge(self, pods: Sequence[ListedPod]) -> Caller:
        self._admissions, caller = called(
            self._admissions, self._with_waits(pods), at_seconds=self._clock()
        )
        return caller

    def _with_waits(self, pods: Sequence[ListedPod]) -> Sequence[ListedPod]:
        return self._specs.with_waits(pods, self._resource_name)

    def on_account(self, listener: Callable[[], None]) -> None:
        """Call this each time that the account was asked for."""
        self._listeners.append(listener)

    def allocation_happened(self) -> None:
        """Say that the account has changed: it is asked for once things are quiet."""
        self._wanted.set()

    async def run(self) -> None:
        """Keep the account: after each quiet, and on a slow tick; until cancelled."""
        while True:
            await self._refresh()
            try:
                async with asyncio.timeout(self._tick_seconds()):
                    await self._wanted.wait()
                    await self._quiet()
            except TimeoutError:
                pass
            await asyncio.sleep(BETWEEN_LISTS_SECONDS - QUIET_SECONDS)

    def _tick_seconds(self) -> float:
        settled_seconds = self._clock() - self._unsettled_at_seconds
        return SLOW_TICK_SECONDS if settled_seconds > SLOW_TICK_SECONDS else UNSETTLED_TICK_SECONDS

    async def _quiet(self) -> None:
        self._unsettled_at_seconds = self._clock()
        while self._wanted.is_set():
            self._wanted.clear()
            await asyncio.sleep(QUIET_SECONDS)

    async def _refresh(self) -> None:
        come, revision = self._specs.come, self._specs.revision
        try:
            pods = await self._list()
        except PodResourcesLimited:
            return
        except PodResourcesError as error:
            self.pods = None
            self._unsettled_at_seconds = self._clock()
            if not self._failing:
                log.warning("pod_resources_unavailable", error=error)
            self._failing = True
            return
        if self._failing:
            log.info("pod_resources_available")
        self._failing = False
        self.pods, self.pods_come, self.pods_revision = tuple(pods), come, revision
        self._admissions = listed(self._admissions, pods, at_seconds=self._clock())
        for listener in self._listeners:
            listener()

    async def _list_with_retry(self) -> Sequence[ListedPod]:
        """List: once more after a failure, and as often as it takes where asked too often."""
        failed = False
        while True:
            try:
                return await self._list()
            except PodResourcesLimited:
                pass
            except PodResourcesError:
                if failed:
                    raise
                failed = True
            await asyncio.sleep(RETRY_SECONDS)

    async def _list(self) -> Sequence[ListedPod]:
        if not self._limiter.take():
            raise PodResourcesLimited("asked too often; the kubelet's limit is left to others")
        return await self._pod_resources.list_pods(self._resource_name, timeout_seconds=1.0)
