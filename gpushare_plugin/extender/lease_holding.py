"""One Lease, taken and kept as client-go does it; knows nothing of what leading is for.

Rule 1: our own time counts from before the request that renewed, another's from after the
answer that first showed it, both by the monotonic clock: of two, one is always over first.
Rule 2: the times in a Lease are other clocks': that it changed is all that they tell.
Rule 3: a Lease is changed only as the version that was read. A conflict is read again:
the request may have been sent twice, and the first of the two have won.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpushare_plugin.errors import ApiConflict, ApiNotFound
from gpushare_plugin.ports.scheduling import Lease, LeaseStore

DURATION_SECONDS = 15
"""How long a Lease that is not renewed is respected by the others."""
RENEW_DEADLINE_SECONDS = 10.0
"""How long after its last renewal the holder still leads: 5 s less than the others wait."""
CALL_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Who stands for election, and where."""

    namespace: str
    lease_name: str
    identity: str
    """Another one for each process: what an earlier one held is not ours."""


class LeaseHolding:
    """What we know of the Lease, and our hold on it."""

    def __init__(
        self,
        leases: LeaseStore,
        candidate: Candidate,
        *,
        clock: Callable[[], float],
        now_text: Callable[[], str],
    ) -> None:
        """`clock` is monotonic, in seconds; `now_text` the time of day as a Lease has it."""
        self._leases = leases
        self._candidate = candidate
        self._clock = clock
        self._now_text = now_text
        self._seen: Lease | None = None
        self._seen_at_seconds = 0.0
        self._unsure = False
        self._renewed_at_seconds: float | None = None
        self.terms = 0
        """How often we took the Lease from another, or from nobody."""

    def __str__(self) -> str:
        return f"{self._candidate.namespace}/{self._candidate.lease_name}"

    @property
    def leads(self) -> bool:
        """Whether the Lease is ours, and was renewed lately enough."""
        return self._age_seconds() < RENEW_DEADLINE_SECONDS

    @property
    def seconds_left(self) -> float:
        """How long nobody else can hold it; 0 if we don't lead."""
        return max(0.0, DURATION_SECONDS - self._age_seconds()) if self.leads else 0.0

    @property
    def holder(self) -> str:
        """Who held it when it was last seen; empty for nobody."""
        return self._seen.holder if self._seen else ""

    async def take_or_keep(self) -> None:
        """Renew the Lease, or take it if it is free; `leads` tells what came of it.

        Raises:
            ApiError: it could not be read or written; what we hold runs out by the clock.
        """
        seen = self._seen
        lease = seen if self._is_ours(seen) and not self._unsure else await self._look()
        if lease is None or self._may_take(lease):
            await self._write(lease)

    def let_go(self) -> None:
        """Lead no more from now on, though the Lease still names us."""
        self._renewed_at_seconds = None

    async def give_up(self, *, timeout_seconds: float) -> None:
        """Leave the Lease to whoever comes next, if it names us; raises ApiError."""
        lease = await self._look() if self._unsure else self._seen
        if lease is None or not self._is_ours(lease):
            return
        now = self._now_text()
        free = replace(lease, holder="", duration_seconds=1, acquire_time=now, renew_time=now)
        await self._leases.update_lease(free, timeout_seconds=timeout_seconds)

    # ------------------------------------------------------------------------------- within

    async def _look(self) -> Lease | None:
        """Read the Lease; None if there is none."""
        candidate = self._candidate
        try:
            found = await self._leases.get_lease(
                candidate.namespace, candidate.lease_name, timeout_seconds=CALL_SECONDS
            )
        except ApiNotFound:
            found = None
        if found != self._seen:
            self._seen_at_seconds = self._clock()
        self._seen, self._unsure = found, False
        if not self._is_ours(found):
            self._renewed_at_seconds = None
        return found

    def _may_take(self, lease: Lease) -> bool:
        if not lease.holder or self._is_ours(lease):
            return True
        respected_seconds = max(lease.duration_seconds, DURATION_SECONDS)
        return self._clock() >= self._seen_at_seconds + respected_seconds

    async def _write(self, lease: Lease | None) -> None:
        """Make the Lease ours, or ours for longer."""
        wanted = self._wanted(lease)
        write = self._leases.create_lease if lease is None else self._leases.update_lease
        sent_at_seconds = self._clock()
        self._unsure = True
        try:
            written = await write(wanted, timeout_seconds=CALL_SECONDS)
        except (ApiConflict, ApiNotFound):
            found = await self._look()
            if found is None or _what_was_written(found) != _what_was_written(wanted):
                return
            written = found
        self._seen, self._unsure = written, False
        self._seen_at_seconds = self._clock()
        self._renewed_at_seconds = sent_at_seconds
        self.terms += not self._is_ours(lease)

    def _wanted(self, lease: Lease | None) -> Lease:
        now, ours = self._now_text(), self._is_ours(lease)
        before = lease or Lease(
            namespace=self._candidate.namespace,
            name=self._candidate.lease_name,
            holder="",
            duration_seconds=0,
            acquire_time="",
            renew_time="",
            transitions=-1,
        )
        return replace(
            before,
            holder=self._candidate.identity,
            duration_seconds=DURATION_SECONDS,
            acquire_time=before.acquire_time if ours else now,
            renew_time=now,
            transitions=before.transitions + (not ours),
        )

    def _is_ours(self, lease: Lease | None) -> bool:
        return lease is not None and lease.holder == self._candidate.identity

    def _age_seconds(self) -> float:
        renewed = self._renewed_at_seconds
        return float("inf") if renewed is None else self._clock() - renewed


def _what_was_written(lease: Lease) -> tuple[str, str, str, int]:
    return lease.holder, lease.acquire_time, lease.renew_time, lease.transitions
