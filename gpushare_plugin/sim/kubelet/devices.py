"""The device accounts of one life of the kubelet: what is there, what is healthy, who holds what.

Rule 1: a plugin's message replaces its resource's whole list.
Rule 2: `holdings` are what containers were given; `taken` are the IDs that are
not free. The two agree except while a pod is admitted, and after a plugin's
empty answer, which leaves the chosen IDs taken by nobody: the real kubelet's leak.
Rule 3: pure. Time comes in as seconds; no gRPC, no files, no randomness.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

WITHOUT_NUMA = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device as its plugin told it."""

    id: str
    healthy: bool
    numa_nodes: tuple[int, ...] = ()


class Holder(NamedTuple):
    """Who holds devices: one container, of one resource."""

    pod_uid: str
    container: str
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a container was given."""

    ids_by_node: Mapping[int, tuple[str, ...]]
    answer: bytes
    """The plugin's ContainerAllocateResponse, serialized."""

    @property
    def ids(self) -> frozenset[str]:
        """Every ID once, though a device of two NUMA nodes stands under both."""
        return frozenset(device_id for ids in self.ids_by_node.values() for device_id in ids)


class DeviceAccounts:
    """What the kubelet's device manager keeps in memory."""

    def __init__(self, *, grace_seconds: float) -> None:
        self.grace_seconds = grace_seconds
        self.holdings: dict[Holder, Holding] = {}
        self._devices: dict[str, dict[str, Device]] = {}
        self._taken: dict[str, set[str]] = {}
        self._stopped_at: dict[str, float] = {}
        self._names: set[str] = set()

    # ------------------------------------------------------------ the plugin's side

    def connect(self, resource: str) -> None:
        """Note that a plugin serves the resource; it has not told its devices yet."""
        self._stopped_at.pop(resource, None)

    def replace(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a plugin's message: the whole list anew."""
        self._names.add(resource)
        self._devices[resource] = {device.id: device for device in devices}

    def disconnect(self, resource: str, *, now_seconds: float) -> None:
        """Note that the plugin is gone: every device unhealthy, capacity for the grace period."""
        for device in list(self._devices.get(resource, {}).values()):
            gone = Device(id=device.id, healthy=False, numa_nodes=device.numa_nodes)
            self._devices[resource][device.id] = gone
        self._stopped_at[resource] = now_seconds

    def expire(self, *, now_seconds: float) -> tuple[str, ...]:
        """Forget resources whose plugin has been gone for the grace period; return their names."""
        gone = tuple(
            resource
            for resource, stopped in self._stopped_at.items()
            if now_seconds - stopped >= self.grace_seconds
        )
        for resource in gone:
            del self._stopped_at[resource]
            self._devices.pop(resource, None)
        return gone

    # ---------------------------------------------------------------------- counts

    @property
    def names(self) -> tuple[str, ...]:
        """Every resource that the node ever reported; a name stays though its count falls to 0."""
        return tuple(sorted(self._names))

    def registered(self, resource: str) -> bool:
        """Whether a request for the resource concerns the device manager at all."""
        return resource in self._devices or resource in self._taken

    def devices(self, resource: str) -> Mapping[str, Device]:
        """Return the devices by ID, in the plugin's order."""
        return self._devices.get(resource, {})

    def healthy(self, resource: str) -> set[str]:
        """Return the IDs that may be given out at all."""
        return {device.id for device in self.devices(resource).values() if device.healthy}

    def taken(self, resource: str) -> set[str]:
        """Return the IDs that are not free."""
        return set(self._taken.get(resource, ()))

    def free(self, resource: str) -> set[str]:
        """Return the IDs that can be given out now."""
        return self.healthy(resource) - self.taken(resource)

    # ---------------------------------------------------------------- the pods' side

    def take(self, resource: str, ids: Iterable[str]) -> None:
        """Mark IDs as not free while a pod is admitted."""
        self._taken.setdefault(resource, set()).update(ids)

    def give(self, holder: Holder, ids: Collection[str], answer: bytes) -> None:
        """Write down what a container got."""
        by_node: dict[int, list[str]] = {}
        known = self.devices(holder.resource)
        for device_id in sorted(ids):
            nodes = known[device_id].numa_nodes if device_id in known else ()
            for node in nodes or (WITHOUT_NUMA,):
                by_node.setdefault(node, []).append(device_id)
        frozen = {node: tuple(members) for node, members in by_node.items()}
        self.holdings[holder] = Holding(ids_by_node=frozen, answer=answer)

    def held(self, pod_uid: str, container: str) -> dict[str, Holding]:
        """Return what one container holds, by resource."""
        return {
            holder.resource: holding
            for holder, holding in self.holdings.items()
            if (holder.pod_uid, holder.container) == (pod_uid, container)
        }

    def settle(self) -> None:
        """Make exactly those IDs not free that containers hold; ends a leak."""
        self._taken = {}
        for holder, holding in self.holdings.items():
            self.take(holder.resource, holding.ids)

    def collect(self, active_uids: Collection[str]) -> None:
        """Free what ended pods held; only if there are any does a leak end too."""
        ended = [holder for holder in self.holdings if holder.pod_uid not in active_uids]
        for holder in ended:
            del self.holdings[holder]
        if ended:
            self.settle()

    @classmethod
    def restored(
        cls,
        *,
        holdings: Mapping[Holder, Holding],
        resources: Iterable[str],
        grace_seconds: float,
        now_seconds: float,
    ) -> "DeviceAccounts":
        """Build the accounts of a kubelet that just started: who holds what, but no device."""
        accounts = cls(grace_seconds=grace_seconds)
        accounts.holdings = dict(holdings)
        accounts.settle()
        for resource in resources:
            accounts.replace(resource, ())
            accounts.disconnect(resource, now_seconds=now_seconds)
        return accounts
