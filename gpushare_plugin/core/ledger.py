"""Who holds how many units of which card: the kubelet's word, joined with the pods.

Rule 1: what is held is what PodResources lists; a pod's wish or annotation holds
nothing.
Rule 2: a listed pod is joined to a pod object by namespace and name, and only while
that object counts: PodResources of old kubelets lists ended pods too.
Rule 3: devices that were given to another pod object are not this one's, whatever the name:
after a forced deletion the kubelet may list the old pod still. A name that is listed twice
is joined where that tells the two apart, else to none.
Rule 4: devices in the original's format belong to no card of ours; they count by
annotation, and are never rewritten.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpushare_plugin.core.association import ListedPod, given_to, is_of
from gpushare_plugin.core.devices import Card, CardTable, is_foreign_id
from gpushare_plugin.core.pods import Pod, counts
from gpushare_plugin.errors import DeviceIdError

NOBODY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one pod holds."""

    pod: Pod
    containers: Mapping[str, Mapping[str, int]]
    """Container name to card UUID to units; containers that hold nothing are not here."""
    foreign: Mapping[str, int] = field(default_factory=dict)
    """Container name to devices of the original's plugin, from before this node was ours."""

    @property
    def foreign_units(self) -> int:
        """How many devices of the original's plugin the pod holds."""
        return sum(self.foreign.values())

    @property
    def unplaced_units(self) -> int:
        """Those of them of which nothing tells the card."""
        return sum(units for name, units in self.foreign.items() if name not in self.containers)

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
    others: tuple[ListedPod, ...] = ()
    """Listed pods that are joined to no pod object; what they hold, they hold all the same."""

    def used_units(self, uuid: str) -> int:
        """Return the units of one card that are held."""
        return sum(holding.units_of(uuid) for holding in self.holdings.values())

    def overcommitted(self, cards: Iterable[Card]) -> tuple[Card, ...]:
        """Return the cards of which more is held than they have; none, unless forced."""
        return tuple(card for card in cards if self.used_units(card.uuid) > card.units)


def keep_ledger(
    listed: Iterable[ListedPod],
    pods: Iterable[Pod],
    table: CardTable,
    owners: Mapping[str, str] = NOBODY,
    *,
    ran: Collection[str] = (),
) -> Ledger:
    """Join what the kubelet lists with the pods that count.

    `owners` says by device ID to which pod's UID a device was given, as far as that is known;
    `ran` the UIDs of pods that ran before the listing began, and so must be those listed.
    """
    listed = tuple(listed)
    by_name = {(pod.namespace, pod.name): pod for pod in pods if counts(pod)}
    times = Counter(each.pod for each in listed)
    holdings, others = {}, []
    for each in listed:
        pod = by_name.get((each.pod.namespace, each.pod.name))
        if pod is None or not _is_joined(
            each, pod, owners, once=times[each.pod] == 1, ran=pod.uid in ran
        ):
            others.append(each)
            continue
        holding = holding_of(each, pod, table)
        if holding.containers or holding.foreign_units:
            holdings[pod.uid] = holding
    return Ledger(holdings=holdings, others=tuple(others))


def _is_joined(
    listed: ListedPod, pod: Pod, owners: Mapping[str, str], *, once: bool, ran: bool
) -> bool:
    if not once:
        return given_to(listed, pod.uid, owners)
    # Of one that ran, another was mistaken for the owner.
    return ran or is_of(listed, pod.uid, owners)


def holding_of(listed: ListedPod, pod: Pod, table: CardTable) -> Holding:
    """Return what the listed pod holds by its device IDs, as this pod's."""
    containers: dict[str, dict[str, int]] = {}
    foreign: dict[str, int] = {}
    for container in listed.containers:
        for device_id in container.device_ids:
            if is_foreign_id(device_id):
                foreign[container.name] = foreign.get(container.name, 0) + 1
                continue
            try:
                uuid = table.of_device(device_id).uuid
            except DeviceIdError:
                # A card that this start does not know (yet): its units show once it does.
                continue
            units = containers.setdefault(container.name, {})
            units[uuid] = units.get(uuid, 0) + 1
    return Holding(pod=pod, containers=containers, foreign=foreign)
