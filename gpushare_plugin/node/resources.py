"""The two resources that the kubelet is served: what is its own for each of them.

Rule 1: no wire is known here; `service` carries both alike.
Rule 2: a memory unit is of one card, and its kubelet asks which had best be taken; a core
is of none, so any will do and nobody is asked.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpushare_plugin.core.association import Caller, Known
from gpushare_plugin.core.compute import CORE_PREFIX, CORES_A_CARD, core_number
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.health import State
from gpushare_plugin.core.injection import Injection
from gpushare_plugin.core.placement import Request
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import AllocationRefused, Refusal
from gpushare_plugin.logs import event_logger
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.allocator import Allocator
from gpushare_plugin.node.inventory import Inventory, Snapshot
from gpushare_plugin.node.refusals import check_cores, check_device_ids, check_unknown_cores
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings

log = event_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Devices that are listed alike: `<prefix>-<n>` for each number from `first` on."""

    prefix: str
    first: int
    count: int
    state: State
    numa_node: int | None = None

    def ids(self) -> Iterable[str]:
        """Return their IDs."""
        return (f"{self.prefix}-{n}" for n in range(self.first, self.first + self.count))


class Resource(Protocol):
    """One resource."""

    @property
    def prefers(self) -> bool:
        """Whether the kubelet is to ask which devices had best be taken."""

    def devices(self, snapshot: Snapshot) -> Iterable[Devices]:
        """Return all devices as they are now."""

    async def preferred(self, requests: Iterable[Request]) -> list[Sequence[str]]:
        """Return the devices that each container had best be given."""

    async def allocate(self, containers: Iterable[Sequence[str]]) -> list[Injection]:
        """Return what each container of these devices is given; raises AllocationRefused."""


class MemoryResource:
    """Memory units, each of one card."""

    prefers = True

    def __init__(self, allocator: Allocator, admission: Admission, *, with_numa: bool) -> None:
        self._allocator = allocator
        self._admission = admission
        self._with_numa = with_numa

    def devices(self, snapshot: Snapshot) -> Iterable[Devices]:
        """Return each card's units, as healthy as the card is."""
        for card, state in snapshot.cards:
            numa_node = card.gpu.numa_node if self._with_numa else None
            yield Devices(
                prefix=card.tag, first=0, count=card.units, state=state, numa_node=numa_node
            )

    async def preferred(self, requests: Iterable[Request]) -> list[Sequence[str]]:
        """Return units of the card that suits the pod of this call."""
        call = await self._admission.pod_of_call()
        return [self._allocator.propose(each, call).device_ids for each in requests]

    async def allocate(self, containers: Iterable[Sequence[str]]) -> list[Injection]:
        """Return the share of the card of the IDs; raises AllocationRefused."""
        injections = []
        for device_ids in containers:
            injections.append(self._allocator.allocate(device_ids))
            # A request may hold any number of containers: others get their turn, and so does
            # the deadline.
            await asyncio.sleep(0)
        self._admission.allocation_happened()
        return injections


class CoreResource:
    """Cores, each of no card: what is asked is looked at, and nothing is given."""

    prefers = False

    def __init__(
        self,
        inventory: Inventory,
        admission: Admission,
        specs: PodSpecs,
        names: Dialect,
        tellings: Tellings,
    ) -> None:
        self._inventory = inventory
        self._admission = admission
        self._specs = specs
        self._names = names
        self._tellings = tellings

    def devices(self, snapshot: Snapshot) -> Iterable[Devices]:
        """Return 100 for each card, as many of them healthy as the healthy cards have."""
        states = [state for _, state in snapshot.cards]
        healthy = CORES_A_CARD * states.count(State.HEALTHY)
        ill = CORES_A_CARD * len(states) - healthy
        yield Devices(prefix=CORE_PREFIX, first=0, count=healthy, state=State.HEALTHY)
        yield Devices(prefix=CORE_PREFIX, first=healthy, count=ill, state=State.UNHEALTHY)

    async def preferred(self, requests: Iterable[Request]) -> list[Sequence[str]]:
        """Return the first that are offered: one is like the other."""
        return [
            list(dict.fromkeys([*each.must_include_ids, *each.available_ids]))[: each.size]
            for each in requests
        ]

    async def allocate(self, containers: Iterable[Sequence[str]]) -> list[Injection]:
        """Return nothing for each container: what keeps cores apart adds its own later.

        Raises:
            AllocationRefused: an ID is none, or the pod may not ask for these cores.
        """
        injections = []
        pod: Pod | None = None
        caller: Caller | None = None
        for device_ids in containers:
            if caller is None:
                call = await self._admission.pod_of_call()
                caller = call.caller
                # A guess is good enough to place a pod by, not to refuse one.
                if isinstance(caller, Known) and not call.guessed:
                    pod = self._specs.find(caller.pod, self._names.core_resource)
            self._check(device_ids, pod)
            log.info("cores_allocated", pod=str(pod or "unknown"), cores=len(device_ids))
            injections.append(Injection())
        return injections

    def _check(self, device_ids: Sequence[str], pod: Pod | None) -> None:
        try:
            check_device_ids(device_ids)
            self._check_numbers(device_ids)
            check_cores(len(device_ids), pod, self._names, node_cards=len(self._inventory.cards))
            if not self._specs.watching:
                check_unknown_cores(len(device_ids), self._names)
        except AllocationRefused as refusal:
            log.error(
                "allocate_refused",
                pod=str(pod or "unknown"),
                units=len(device_ids),
                cause=refusal.cause.value,
                error=refusal,
            )
            self._tellings.refused(pod, str(refusal))
            raise

    def _check_numbers(self, device_ids: Sequence[str]) -> None:
        total = CORES_A_CARD * len(self._inventory.cards)
        for device_id in device_ids:
            number = core_number(device_id)
            if number is None or number >= total:
                raise AllocationRefused(
                    Refusal.UNKNOWN_DEVICE,
                    f"device ID {device_id[:80]!r}: expected {CORE_PREFIX}-0 to"
                    f" {CORE_PREFIX}-{total - 1}",
                )
