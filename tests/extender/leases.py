"""An API server's Leases in the small, with lag and faults, for virtual time."""

import asyncio
from dataclasses import dataclass, field, replace

from gpushare_plugin.errors import ApiConflict, ApiNotFound, ApiUnavailable
from gpushare_plugin.ports.scheduling import Lease


@dataclass
class Leases:
    """What is stored, whoever asks."""

    stored: dict[tuple[str, str], Lease] = field(default_factory=dict)
    version: int = 0

    def put(self, lease: Lease) -> Lease:
        self.version += 1
        kept = replace(lease, version=str(self.version))
        self.stored[lease.namespace, lease.name] = kept
        return kept

    @property
    def holder(self) -> str:
        """Of the only Lease; empty if nobody's."""
        return next((each.holder for each in self.stored.values()), "")


@dataclass
class LeaseClient:
    """One candidate's way to the Leases.

    `there_seconds` and `back_seconds` are how long a request and its answer travel; `away`
    means that none arrives; `answers_lost` that requests arrive and no answer comes back;
    `sent_twice` that each write is carried out, and then once more, as a broken connection
    makes of it.
    """

    server: Leases
    there_seconds: float = 0.0
    back_seconds: float = 0.0
    away: bool = False
    answers_lost: bool = False
    sent_twice: bool = False
    writes: int = 0

    async def get_lease(self, namespace: str, name: str, *, timeout_seconds: float) -> Lease:
        await self._travel(timeout_seconds)
        found = self.server.stored.get((namespace, name))
        await self._return(timeout_seconds)
        if found is None:
            raise ApiNotFound(f"get leases {name}: there is none")
        return found

    async def create_lease(self, lease: Lease, *, timeout_seconds: float) -> Lease:
        await self._travel(timeout_seconds)
        there, kept = False, lease
        for _ in range(1 + self.sent_twice):
            there = (lease.namespace, lease.name) in self.server.stored
            kept = lease if there else self.server.put(lease)
            self.writes += not there
        await self._return(timeout_seconds)
        if there:
            raise ApiConflict(f"create leases {lease.name}: there is one")
        return kept

    async def update_lease(self, lease: Lease, *, timeout_seconds: float) -> Lease:
        await self._travel(timeout_seconds)
        fits, kept = False, lease
        for _ in range(1 + self.sent_twice):
            stored = self.server.stored.get((lease.namespace, lease.name))
            fits = stored is not None and stored.version == lease.version
            kept = self.server.put(lease) if fits else lease
            self.writes += fits
        await self._return(timeout_seconds)
        if not fits:
            raise ApiConflict(f"update leases {lease.name}: it is of another version")
        return kept

    async def _travel(self, timeout_seconds: float) -> None:
        if self.away:
            await asyncio.sleep(timeout_seconds)
            raise ApiUnavailable("leases: no answer")
        await asyncio.sleep(self.there_seconds)

    async def _return(self, timeout_seconds: float) -> None:
        if self.answers_lost or self.away:
            await asyncio.sleep(timeout_seconds)
            raise ApiUnavailable("leases: no answer")
        await asyncio.sleep(self.back_seconds)
