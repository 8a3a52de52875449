"""Admission: which devices each container of a pod gets, and asking the plugin for them.

Rule 1: one pod at a time; a call that hangs holds up every pod behind it, as on a node.
Rule 2: init containers first; a container's resources in random order; one
Allocate for each container and resource.
Rule 3: what the plugin prefers is a hint. IDs that are not free are passed
over, missing ones are filled at random; only an error counts.
Rule 4: devices are healthy only once a plugin of this life has told so; a pod that
is admitted anew after a restart is therefore rejected if it asks for any.
Rule 5: knows nothing of phases or containers' starts: a pod is admitted, or an
`AdmissionError` says why not.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from random import Random

from gpushare_plugin.sim.kubelet import topology
from gpushare_plugin.sim.kubelet.devices import DeviceAccounts, Holder
from gpushare_plugin.sim.kubelet.endpoint import Endpoint, PluginCallError
from gpushare_plugin.sim.kubelet.pods import ContainerSpec, PodSpec

_NO_ANSWER = (
    "no containers return in allocation response"
    " &AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}"
)


class AdmissionError(Exception):
    """The pod is rejected; the text is the kubelet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionParts:
    """What admission works with."""

    accounts: DeviceAccounts
    endpoints: Mapping[str, Endpoint]
    rng: Random
    topology_manager: bool
    active_uids: Callable[[], Collection[str]]
    """The pods that have not ended, the one under admission among them."""
    save: Callable[[], None]
    """Write the checkpoint."""


class Admission:
    """Gives devices to pods."""

    def __init__(self, parts: AdmissionParts) -> None:
        self._parts = parts

    async def admit(self, pod: PodSpec) -> None:
        """Give every container its devices; raise AdmissionError where one can't have them."""
        reusable: dict[str, set[str]] = {}
        for container, init in pod.in_start_order():
            await self._serve(pod.uid, container, reusable)
            held = self._parts.accounts.held(pod.uid, container.name)
            for resource, holding in held.items():
                spare = reusable.setdefault(resource, set())
                if init and not container.restartable:
                    spare |= holding.ids
                else:
                    spare -= holding.ids

    async def _serve(
        self, uid: str, container: ContainerSpec, reusable: Mapping[str, set[str]]
    ) -> None:
        accounts, rng = self._parts.accounts, self._parts.rng
        asked = sorted(
            (r, n) for r, n in container.requests.items() if n and accounts.registered(r)
        )
        if not asked:
            return
        accounts.collect(self._parts.active_uids())
        nodes = self._affinity(asked, reusable)
        for resource, units in rng.sample(asked, len(asked)):
            holder = Holder(uid, container.name, resource)
            choice = _Choice(self._parts, resource, units, reusable.get(resource, set()))
            await self._allocate(holder, await choice.made(nodes))
        self._parts.save()

    def _affinity(
        self, asked: Iterable[tuple[str, int]], reusable: Mapping[str, set[str]]
    ) -> topology.Nodes | None:
        if not self._parts.topology_manager:
            return None
        accounts = self._parts.accounts
        return topology.affinity(
            topology.Demand(
                units=units,
                devices=accounts.devices(resource),
                free=accounts.free(resource),
                reusable=reusable.get(resource, set()),
            )
            for resource, units in asked
        )

    async def _allocate(self, holder: Holder, ids: list[str]) -> None:
        accounts = self._parts.accounts
        try:
            answer = await self._parts.endpoints[holder.resource].allocate(ids)
        except PluginCallError as failure:
            accounts.settle()
            raise AdmissionError(str(failure)) from failure
        if answer is None:
            # Not settled: the kubelet leaks the chosen devices here.
            raise AdmissionError(_NO_ANSWER)
        accounts.give(holder, ids, answer.SerializeToString())


class _Choice:
    """Choosing the devices of one container, of one resource."""

    def __init__(
        self, parts: AdmissionParts, resource: str, units: int, reusable: Collection[str]
    ) -> None:
        self._parts = parts
        self._resource = resource
        self._units = units
        self._reusable = reusable
        self._chosen: list[str] = []

    async def made(self, nodes: topology.Nodes | None) -> list[str]:
        """Return the IDs to allocate, in no order."""
        self._check_health()
        if self._fill_from(self._reusable):
            return self._chosen
        free = self._free()
        offer = topology.offer(free, self._parts.accounts.devices(self._resource), nodes)
        # Fewer than the aligned ones: the plugin may say which of them. Else
        # they are all used, without a question.
        offered = offer.aligned
        if self._missing >= len(offer.aligned):
            if self._fill_from(offer.aligned):
                return self._chosen
            offered = free
        preferred = await self._preferred({*offered, *self._chosen})
        for group in (preferred & offered, offer.aligned, offer.unaligned, offer.without_numa):
            if self._fill_from(group):
                break
        return self._chosen

    @property
    def _missing(self) -> int:
        return self._units - len(self._chosen)

    def _check_health(self) -> None:
        if not self._parts.accounts.healthy(self._resource):
            raise AdmissionError(
                "no healthy devices present; cannot allocate unhealthy devices " + self._resource
            )

    def _free(self) -> frozenset[str]:
        free = self._parts.accounts.free(self._resource) - {*self._chosen}
        if len(free) < self._missing:
            raise AdmissionError(
                f"requested number of devices unavailable for {self._resource}."
                f" Requested: {self._missing}, Available: {len(free)}"
            )
        return frozenset(free)

    def _fill_from(self, group: Collection[str]) -> bool:
        """Take up to the missing number from the group, at random; return whether all are there."""
        left = self._shuffled({*group} - {*self._chosen})
        self._chosen += left[: self._missing]
        self._parts.accounts.take(self._resource, self._chosen)
        return self._missing == 0

    async def _preferred(self, available: Collection[str]) -> frozenset[str]:
        endpoint = self._parts.endpoints[self._resource]
        if not endpoint.options.get_preferred_allocation_available:
            return frozenset()
        try:
            hint = await endpoint.get_preferred_allocation(
                available=self._shuffled(available),
                must_include=self._shuffled(self._chosen),
                size=self._units,
            )
        except PluginCallError as failure:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {failure}"
            raise AdmissionError(text) from failure
        return frozenset(hint)

    def _shuffled(self, ids: Collection[str]) -> list[str]:
        # Sorted first: the order of a set of strings differs from process to process.
        return self._parts.rng.sample(sorted(ids), len(ids))
