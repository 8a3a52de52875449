"""The sidecar way: kube-schedulers elect their leader, and each has an extender of its own.

    asked after a pause of 10 s ──▶ GET the schedulers' Lease ── as before ──▶ answers
                                               │
                                     another holder, or the first look
                                               ▼
                                     lists the pods anew ──▶ answers

Rule 1: whoever was asked meanwhile may have bound pods of which our watch has not told;
the list from etcd tells of all of them.
Rule 2: a call does not wait for a long list: it is answered with an error, and the
scheduler tries the pod again.
Rule 3: what could not be looked up is looked up again at the next call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from gpushare_plugin.errors import ApiError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.scheduling import Lease, LeaseStore

log = event_logger(__name__)

PAUSE_SECONDS = 10.0
LOOK_SECONDS = 1.5
RELIST_SECONDS = 30.0
PATIENCE_SECONDS = 2.0
"""How long a call waits; kube-scheduler's `httpTimeout` is 4 s or more."""
WRITING_PATIENCE_SECONDS = 0.3
"""A bind takes up to 3.5 s after that."""
LISTING = (
    "another scheduler may have bound pods while this extender was not asked: it is listing pods"
    " anew; try again"
)

Holder = tuple[str, int]
"""Who holds the Lease, and how often that changed."""


class Handover:
    """Notices that another one was asked meanwhile. A `Gate`; everybody leads."""

    def __init__(
        self,
        leases: LeaseStore,
        lease: tuple[str, str] | None,
        *,
        clock: Callable[[], float],
        relist: Callable[[float], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        """`lease` is namespace and name of the schedulers' Lease; None: each pause is a change.

        `clock` is monotonic, in seconds. `relist` lists the pods within so many seconds, or
        raises ApiError. `changed` is told each time that another one may have been asked.
        """
        self._leases = leases
        self._lease = lease
        self._clock = clock
        self._relist = relist
        self._changed = changed
        self._asked_at_seconds: float | None = None
        self._holder: Holder | None = None
        self._look: asyncio.Task[str | None] | None = None

    @property
    def leads(self) -> bool:
        """Whether it is this extender that the scheduler should have asked: always."""
        return True

    async def refusal(self, *, writing: bool) -> str | None:
        """Return why this call cannot be answered now; None if it can."""
        if self._is_fresh():
            self._asked_at_seconds = self._clock()
            return None
        if self._look is None:
            self._look = asyncio.create_task(self._catch_up(), name="look who was asked")
        look = self._look
        with suppress(TimeoutError):
            async with asyncio.timeout(WRITING_PATIENCE_SECONDS if writing else PATIENCE_SECONDS):
                return await asyncio.shield(look)
        return LISTING

    async def is_active(self) -> bool:
        """Say whether the scheduler that asked us last still leads, as of now."""
        if self._asked_at_seconds is None or self._look is not None:
            return False
        try:
            return await self._read() == self._holder
        except ApiError:
            return False

    def _is_fresh(self) -> bool:
        asked = self._asked_at_seconds
        return self._look is None and asked is not None and self._clock() - asked < PAUSE_SECONDS

    async def _catch_up(self) -> str | None:
        """Look who was asked meanwhile, and list the pods if it may not have been us."""
        try:
            holder = await self._read()
            if self._lease is None or holder != self._holder:
                log.info("listing_pods", holder=holder[0], transitions=holder[1])
                self._changed()
                await self._relist(RELIST_SECONDS)
        except ApiError as error:
            log.warning("catch_up_failing", error=error, doing="looking again at the next call")
            return (
                "it is not known whether another scheduler bound pods while this extender was not"
                f" asked: {error}"
            )
        else:
            self._holder = holder
            self._asked_at_seconds = self._clock()
            return None
        finally:
            self._look = None

    async def _read(self) -> Holder:
        if self._lease is None:
            return "", 0
        namespace, name = self._lease
        found: Lease = await self._leases.get_lease(namespace, name, timeout_seconds=LOOK_SECONDS)
        return found.holder, found.transitions
