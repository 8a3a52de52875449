"""Who holds how many units of which card: the kubelet's word, joined with the pods.

Rule 1: what is held is what PodResources lists; a pod's wish or annotation holds
nothing.
Rule 2: a listed pod is joined to a pod object by namespace and name, and only while
that object counts: PodResources of old kubelets lists ended pods too. A name that is
listed twice, as after a forced deletion, is joined to none.
Rule 3: devices in the original's format belong to no card of ours; they count by
annotation, and are never rewritten.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpushare_plugin.core.association import ListedPod
from gpushare_plugin.core.devices import Card, CardTable, is_foreign_id
from gpushare_plugin.core.pods import Pod, counts
from gpushare_plugin.errors import DeviceIdError


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one pod holds."""

    pod: Pod
    containers: Mapping[str, Mapping[str, int]]
    """Container name to card UUID to units; containers that hold nothing are not here."""
    foreign_units: int = 0
    """Devices of the original's plugin, from before this node was ours."""

    @property
    def cards(self) -> frozenset[str]:
        """The UUIDs of the cards that the pod holds units of."""
        return frozenset(uuid for units in self.containers.values() for uuid in units)

    def units_of(self, uuid: str) -> int:
        """Return the units of one card that the pod holds."""
        return sum(units.get(uuid, 0) for units in self.containers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All holdings of the node, by pod UID."""

    holdings: Mapping[str, Holding] = field(default_factory=dict)

    def used_units(self, uuid: str) -> int:
        """Return the units of one card that are held."""
        return sum(holding.units_of(uuid) for holding in self.holdings.values())

    def overcommitted(self, cards: Iterable[Card]) -> tuple[Card, ...]:
        """Return the cards of which more is held than they have; none, unless forced."""
        return tuple(card for card in cards if self.used_units(card.uuid) > card.units)


def keep_ledger(listed: Iterable[ListedPod], pods: Iterable[Pod], table: CardTable) -> Ledger:
    """Join what the kubelet lists with the pods that count."""
    listed = tuple(listed)
    by_name = {(pod.namespace, pod.name): pod for pod in pods if counts(pod)}
    times = Counter(each.pod for each in listed)
    holdings = {}
    for each in listed:
        pod = by_name.get((each.pod.namespace, each.pod.name))
        if pod is not None and times[each.pod] == 1:
            holding = _holding(each, pod, table)
            if holding.containers or holding.foreign_units:
                holdings[pod.uid] = holding
    return Ledger(holdings=holdings)


def _holding(listed: ListedPod, pod: Pod, table: CardTable) -> Holding:
    containers: dict[str, dict[str, int]] = {}
    foreign_units = 0
    for container in listed.containers:
        for device_id in container.device_ids:
            if is_foreign_id(device_id):
                foreign_units += 1
                continue
            try:
                uuid = table.of_device(device_id).uuid
            except DeviceIdError:
                # A card that this start does not know (yet): its units show once it does.
                continue
            units = containers.setdefault(container.name, {})
            units[uuid] = units.get(uuid, 0) + 1
    return Holding(pod=pod, containers=containers, foreign_units=foreign_units)
