"""Who uses what, as the original's inspect page shows it: nodes, their cards, the pods on them.

Rule: the numbers are the ledger's, by which pods are placed. What sits on an unknown card
is in its node's sum, and on no card.
"""

from dataclasses import dataclass

from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.rooms import Seated


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectPod:
    """What one pod holds of one card."""

    name: str
    namespace: str
    used_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectCard:
    """One card; the original calls it a device."""

    index: int
    total_units: int
    used_units: int
    pods: tuple[InspectPod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectNode:
    """One node; without cards if it shares none."""

    name: str
    total_units: int
    used_units: int
    cards: tuple[InspectCard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectPage:
    """Nodes by name."""

    nodes: tuple[InspectNode, ...]


def inspect(cluster: Cluster, node_name: str | None) -> InspectPage | None:
    """Return the page of one node, or of all; None if there is no such node."""
    if node_name is None:
        found = [_node(cluster, each) for each in sorted(cluster.node_names)]
        return InspectPage(nodes=tuple(each for each in found if each is not None))
    node = _node(cluster, node_name)
    return None if node is None else InspectPage(nodes=(node,))


def _node(cluster: Cluster, node_name: str) -> InspectNode | None:
    room = cluster.room(node_name)
    if room is None:
        return None
    seated = sorted(cluster.seats_on(node_name), key=lambda each: str(each[0]))
    return InspectNode(
        name=node_name,
        total_units=room.total_units,
        used_units=room.used_units,
        cards=tuple(_card(each.card.index, each.card.units, seated) for each in room.cards),
    )


def _card(index: int, total_units: int, seated: list[Seated]) -> InspectCard:
    pods = tuple(
        InspectPod(name=pod.name, namespace=pod.namespace, used_units=seats.units[index])
        for pod, seats in seated
        if seats.units.get(index)
    )
    return InspectCard(
        index=index,
        total_units=total_units,
        used_units=sum(each.used_units for each in pods),
        pods=pods,
    )
