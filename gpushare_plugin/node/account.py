"""The node's state at one moment, as metrics show it: cards, and who holds what of them.

Rule 1: who holds what is the kubelet's word (PodResources), never our own count.
Rule 2: what a container was given is what counts, here as on its pod's annotation: a card
that another extender over-committed, and devices of the original's plugin, are on the card
that the container sees, whatever their IDs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpushare_plugin.core.association import ListedPod
from gpushare_plugin.core.bookkeeping import as_served
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.health import State
from gpushare_plugin.core.ledger import Holding, Ledger, holding_of, keep_ledger
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.metrics import CardState, ContainerShare
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.specs import PodSpecs


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who holds what."""

    containers: tuple[ContainerShare, ...]
    unplaced_units: int
    """Devices of the original's plugin of which nothing tells the card."""


class Accounting:
    """Joins what the kubelet listed last with the pods that the watch told of."""

    def __init__(
        self, specs: PodSpecs, admission: Admission, inventory: Inventory, names: Dialect
    ) -> None:
        self._specs = specs
        self._admission = admission
        self._inventory = inventory
        self._names = names

    def ledger(self) -> Ledger | None:
        """Return what each pod was given; None while that is not known."""
        if self._admission.pods is None:
            return None
        pods = self._specs.came_before(self._admission.pods_come)
        table, owners = self._inventory.table, self._specs.owners
        ran = self._specs.ran_before(self._admission.pods_revision)
        kept = keep_ledger(self._admission.pods, pods, table, owners, ran=ran)
        served = {uid: self._as_served(each) for uid, each in kept.holdings.items()}
        return Ledger(holdings=served, others=kept.others)

    def account(self) -> Account | None:
        """Return what each container was given; None while that is not known."""
        ledger = self.ledger()
        if ledger is None:
            return None
        table = self._inventory.table
        others = [holding_of(each, _nameless(each), table) for each in ledger.others]
        holdings = [*ledger.holdings.values(), *map(self._as_served, others)]
        return Account(
            containers=_shares(holdings),
            unplaced_units=sum(each.unplaced_units for each in holdings),
        )

    def _as_served(self, holding: Holding) -> Holding:
        names, table = self._names, self._inventory.table
        return as_served(holding, table, names.annotations, names.memory_resource)


def _nameless(listed: ListedPod) -> Pod:
    """Return a pod of which the name alone is known."""
    return Pod(namespace=listed.pod.namespace, name=listed.pod.name, uid="", containers=())


def _shares(holdings: Iterable[Holding]) -> tuple[ContainerShare, ...]:
    shares: Counter[tuple[str, str, str, str]] = Counter()
    for holding in holdings:
        for container, by_card in holding.containers.items():
            for uuid, units in by_card.items():
                shares[holding.pod.namespace, holding.pod.name, container, uuid] += units
    return tuple(
        ContainerShare(namespace=namespace, pod=pod, container=container, uuid=uuid, units=units)
        for (namespace, pod, container, uuid), units in sorted(shares.items())
    )


def card_states(
    inventory: Inventory, shares: Sequence[ContainerShare] | None
) -> tuple[CardState, ...]:
    """Return the state of each card; `shares` is None while it is not known who holds what."""
    held: Counter[str] = Counter()
    for share in shares or ():
        held[share.uuid] += share.units
    return tuple(
        CardState(
            index=card.index,
            uuid=card.uuid,
            model=card.gpu.model,
            units=card.units,
            allocated_units=None if shares is None else held[card.uuid],
            healthy=inventory.health(card.uuid).state is State.HEALTHY,
            watched=inventory.health(card.uuid).watched,
        )
        for card in inventory.cards
    )
