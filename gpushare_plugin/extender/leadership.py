"""The shared way: of several extenders behind one Service, one leads, and it alone serves.

    follows ── took the Lease ──▶ lists anew ── nodes and pods are held ──▶ serves
       ▲                              │                                        │
       └──── no renewal for 10 s, or another holder is seen ◀─────────────────┘

Rule 1: we stop serving 5 s before anybody else may begin, whatever the API server says.
Rule 2: who begins to lead lists nodes and pods from etcd before it answers.
Rule 3: the Lease is given up only while no Binding of ours is under way or in doubt;
else it runs out by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gpushare_plugin.errors import ApiError
from gpushare_plugin.extender.lease_holding import LeaseHolding
from gpushare_plugin.logs import event_logger

log = event_logger(__name__)

RETRY_SECONDS = 2.0
JITTER = 1.2
"""Followers wait up to so much of `RETRY_SECONDS` longer, each time another while."""
RELIST_SECONDS = 30.0
RELEASE_SECONDS = 2.0
SETTLE_SECONDS = 4.0
"""For the Bindings under way to end when we do; a bind takes 3.5 s at most."""
SETTLE_STEP_SECONDS = 0.05

NOT_LEADING = "this extender does not lead (any more); ask again"
LISTING = "this extender has just begun to lead and is listing nodes and pods anew; try again"


class Leadership:
    """Stands for election, and says whether we may serve. A `Gate`."""

    def __init__(
        self,
        holding: LeaseHolding,
        *,
        draw: Callable[[], float],
        relist: Callable[[float], Awaitable[None]],
        unsettled: Callable[[], bool],
        took_over: Callable[[], None],
    ) -> None:
        """`draw` returns a number from 0 to 1.

        `relist` lists nodes and pods within so many seconds, or raises ApiError. `unsettled`
        says whether a Binding of ours may still be carried out. `took_over` is told each time
        that we begin to lead.
        """
        self._holding = holding
        self._draw = draw
        self._relist = relist
        self._unsettled = unsettled
        self._took_over = took_over
        self._listing: asyncio.Task[None] | None = None
        self._listed = False
        self._term: int | None = None
        self._trouble: type[ApiError] | None = None

    @property
    def leads(self) -> bool:
        """Whether the Lease is ours, by our clock."""
        return self._holding.leads

    @property
    def serves(self) -> bool:
        """Whether we lead, and hold what was there when we began to."""
        return self.leads and self._listed

    async def refusal(self, *, writing: bool) -> str | None:
        """Return why a call is not ours to answer now; None if it is."""
        del writing
        return self._why_not()

    def fence(self, seconds: float) -> str:
        """Return why nothing may be written that takes so long; empty if it may."""
        why_not = self._why_not()
        if why_not is not None:
            return why_not
        left_seconds = self._holding.seconds_left
        if left_seconds > seconds:
            return ""
        return (
            f"the Lease {self._holding} is ours for {left_seconds:.1f} s more, and the request"
            f" may take {seconds:.1f} s; it will be tried again"
        )

    async def run(self) -> None:
        """Stand for election until cancelled; then give the Lease up."""
        try:
            while True:
                await self._try()
                jitter = 0.0 if self.leads else JITTER * self._draw()
                await asyncio.sleep(RETRY_SECONDS * (1 + jitter))
        finally:
            await self._end()

    # ------------------------------------------------------------------------------- within

    def _why_not(self) -> str | None:
        if self.serves:
            return None
        return LISTING if self.leads else NOT_LEADING

    async def _try(self) -> None:
        try:
            await self._holding.take_or_keep()
        except ApiError as error:
            if self._trouble is not type(error):
                self._trouble = type(error)
                log.warning("lease_failing", lease=self._holding, error=error)
        else:
            self._trouble = None
        if self.leads and self._term != self._holding.terms:
            self._begin()
        elif self._term is not None and not self.leads:
            self._lose()

    def _begin(self) -> None:
        log.info("leads", lease=self._holding, identity=self._holding.holder)
        self._term = self._holding.terms
        self._took_over()
        self._stop_listing()
        self._listing = asyncio.create_task(self._list(), name="list for a new term")

    def _lose(self) -> None:
        log.warning("leads_no_more", lease=self._holding, holder=self._holding.holder)
        self._term = None
        self._stop_listing()

    async def _list(self) -> None:
        while not self._listed:
            try:
                await self._relist(RELIST_SECONDS)
            except ApiError as error:
                log.warning("relist_failing", error=error, doing="answering no call until it works")
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._listed = True

    def _stop_listing(self) -> None:
        self._listed = False
        if self._listing is not None:
            self._listing.cancel()
            self._listing = None

    async def _end(self) -> None:
        """Serve no more; give the Lease up if nothing of ours can still be written."""
        led, self._term = self.leads, None
        self._holding.let_go()
        self._stop_listing()
        if not led:
            return
        # No asyncio.timeout: before Python 3.11.4 it does not work in a task that is being ended.
        for _ in range(round(SETTLE_SECONDS / SETTLE_STEP_SECONDS)):
            if not self._unsettled():
                break
            await asyncio.sleep(SETTLE_STEP_SECONDS)
        if self._unsettled():
            log.warning("lease_left", lease=self._holding, cause="a Binding is in doubt")
            return
        try:
            await self._holding.give_up(timeout_seconds=RELEASE_SECONDS)
        except ApiError as error:
            log.warning("lease_left", lease=self._holding, cause=error)
