"""What is free on a node: a pure function of the node and of where its pods sit.

Rule 1: made from scratch for every change; nothing is added to or taken from a room.
Rule 2: units of an unknown card are taken off every card, so that no card looks freer
than it may be.
Rule 3: an over-committed card has less than nothing free; it is never shown as empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpushare_plugin.core.compute import CORES_A_CARD
from gpushare_plugin.core.seats import Seats
from gpushare_plugin.core.shared_node import SharedCard, SharedNode


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRoom:
    """What is free on one card, after what may be on it; below 0 if it is over-committed."""

    card: SharedCard
    free_units: int
    free_cores: int

    def has(self, units: int, cores: int) -> bool:
        """Say whether so much is free; without cores asked, it does not matter who has them."""
        return self.free_units >= units and (not cores or self.free_cores >= cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """What is free on a node."""

    node: SharedNode
    cards: tuple[CardRoom, ...]
    """By index."""
    unknown_units: int
    """Held by pods of which nothing tells the card; taken off every card above."""
    used_units: int
    """By all pods, on whatever card."""
    used_cores: int
    """By all pods, on whatever card."""
    total_units: int
    """Of all cards, healthy or not."""

    @property
    def largest_free_units(self) -> int:
        """What one card can still take; 0 where nothing new may go, or no card has room.

        A plain ask (`Ask.is_plain`) fits if it is for no more than that.
        """
        if self.node.problem:
            return 0
        return max((each.free_units for each in self.cards if each.card.healthy), default=0)

    @property
    def free_units(self) -> int:
        """What is free on the healthy cards in all, never below 0."""
        free = sum(
            max(0, each.free_units + self.unknown_units) for each in self.cards if each.card.healthy
        )
        return max(0, free - self.unknown_units)

    @property
    def used_share(self) -> float:
        """The used part of all units; above 1 where the node is over-committed."""
        return self.used_units / self.total_units if self.total_units else 0.0


def room_of(node: SharedNode, seats: Iterable[Seats]) -> NodeRoom:
    """Return what the node has free beside the pods that sit there."""
    count = len(node.cards)
    units, cores = [0] * count, [0] * count
    unknown_units = unknown_cores = 0
    for seat in seats:
        unknown_units += seat.unknown_units
        unknown_cores += seat.unknown_cores
        # Seats of a card that the node has no more are somewhere on it.
        for index, amount in seat.units.items():
            if index < count:
                units[index] += amount
            else:
                unknown_units += amount
        for index, amount in seat.cores.items():
            if index < count:
                cores[index] += amount
            else:
                unknown_cores += amount
    return NodeRoom(
        node=node,
        cards=tuple(
            CardRoom(
                card=card,
                free_units=card.units - used - unknown_units,
                free_cores=CORES_A_CARD - used_cores - unknown_cores,
            )
            for card, used, used_cores in zip(node.cards, units, cores, strict=True)
        ),
        unknown_units=unknown_units,
        used_units=sum(units) + unknown_units,
        used_cores=sum(cores) + unknown_cores,
        total_units=sum(card.units for card in node.cards),
    )
