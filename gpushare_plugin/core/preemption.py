"""Whom to evict from a node so that a pod really fits there.

kube-scheduler counts a node's units in all: its victims may free bits of several cards.

Rule 1: victims free enough on the cards that the pod would go to, and in all, which is
what kube-scheduler asks for; else nobody is evicted.
Rule 2: of the pods that we know, none is evicted that is not of lower priority.
Rule 3: given victims that hold none of our units stay: they are for something else. So do
all of them where the pod has room of ours without any. Else those that free nothing on the
pod's cards are let go: if they were for something else too, the next try asks for them.
Rule 4: none is taken that is not needed: given ones first, then the lowest priority, then
the largest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.compute import CORES_A_CARD
from gpushare_plugin.core.fitting import Misfit, able_cards
from gpushare_plugin.core.room import CardRoom, NodeRoom
from gpushare_plugin.core.seats import Seats

LOWEST = -(1 << 31)
"""No pod's priority is below it."""
Amounts = tuple[int, ...]
"""Units of each card in question, cores of each, and both of the whole node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod on the node that holds units of it."""

    uid: str
    priority: int
    seats: Seats


def victims_on(
    room: NodeRoom,
    ask: Ask,
    *,
    priority: int,
    pods: Iterable[Victim],
    given: Iterable[str],
) -> frozenset[str] | None:
    """Return the UIDs of the pods to evict, or None where no eviction would help.

    Args:
        room: what is free now, beside `pods`.
        ask: what the pod asks for.
        priority: the pod's own.
        pods: those on the node that hold units and could be evicted.
        given: the UIDs of the victims that kube-scheduler would take; others may be among
            them than those in `pods`.
    """
    offered = frozenset(given)
    if not ask.units:
        return offered
    able = able_cards(room, ask)
    if isinstance(able, Misfit):
        return None
    known = {each.uid: each for each in pods}
    lower = _in_order(known.values(), priority, offered)
    search = _Search(room=room, ask=ask, given=offered, lower=lower)
    taken = search.best(able)
    if taken is None:
        return None
    # With room of ours without any of them, they were given for something else.
    stay = frozenset(each.uid for each in lower) if not taken else frozenset()
    others = offered - (known.keys() - stay)
    return others | {each.uid for each in taken}


def _in_order(known: Iterable[Victim], priority: int, given: frozenset[str]) -> tuple[Victim, ...]:
    """Return who may go as they are taken, first to last; they are let go last to first."""
    lower = [each for each in known if each.priority < priority]
    lower.sort(
        key=lambda each: (each.uid not in given, each.priority, -_held(each.seats), each.uid)
    )
    return tuple(lower)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for the cards whose victims are the smallest loss."""

    room: NodeRoom
    ask: Ask
    given: frozenset[str]
    lower: tuple[Victim, ...]
    """Who is of lower priority, as they are taken."""

    def best(self, able: Sequence[CardRoom]) -> tuple[Victim, ...] | None:
        """Return the victims on the best one of these cards, or on the asked number of them."""
        by_card = [(each, self.taken(each)) for each in able]
        costs = [(self.cost(taken), card) for card, taken in by_card if taken is not None]
        if len(costs) < self.ask.card_count:
            return None
        costs.sort(key=lambda each: (not self.is_pinned(each[1]), each[0], each[1].card.index))
        cards = tuple(card for _, card in costs[: self.ask.card_count])
        if self.ask.pinned is not None and not self.is_pinned(cards[0]):
            return None
        return self.taken(*cards)

    def is_pinned(self, card: CardRoom) -> bool:
        """Say whether the pod must go to this card."""
        return card.card.index == self.ask.pinned

    def cost(self, taken: Sequence[Victim]) -> tuple[int, int, int]:
        """Return the key of a set: victims that were not given, top priority, size."""
        foreign = sum(each.uid not in self.given for each in taken)
        return foreign, max((each.priority for each in taken), default=LOWEST), len(taken)

    def taken(self, *cards: CardRoom) -> tuple[Victim, ...] | None:
        """Return the victims that make room on all these cards, or None if there is no way."""
        gaps = _gaps(self.room, self.ask, cards)
        taken: list[tuple[Victim, Amounts]] = []
        for each in self.lower:
            gift = _gift(each, cards)
            if any(gap > 0 and given > 0 for gap, given in zip(gaps, gift, strict=True)):
                gaps = _less(gaps, gift)
                taken.append((each, gift))
        if not _closed(gaps):
            return None
        needed = []
        for each, gift in reversed(taken):
            if _closed(_more(gaps, gift)):
                gaps = _more(gaps, gift)
            else:
                needed.append(each)
        return tuple(needed)


def _gaps(room: NodeRoom, ask: Ask, cards: Sequence[CardRoom]) -> Amounts:
    """Return what is missing, of each amount; what is below 1 is not."""
    healthy = [each.card for each in room.cards if each.card.healthy]
    free_units = sum(card.units for card in healthy) - room.used_units
    free_cores = CORES_A_CARD * len(healthy) - room.used_cores
    cores = ask.cores_per_card
    return (
        *(ask.units_per_card - each.free_units for each in cards),
        *(cores - each.free_cores if cores else 0 for each in cards),
        ask.units - free_units,
        cores * ask.card_count - free_cores if cores else 0,
    )


def _gift(victim: Victim, cards: Sequence[CardRoom]) -> Amounts:
    """Return what a pod frees when it goes; units of an unknown card are missed on each."""
    seats, indices = victim.seats, [each.card.index for each in cards]
    return (
        *(seats.units.get(index, 0) + seats.unknown_units for index in indices),
        *(seats.cores.get(index, 0) + seats.unknown_cores for index in indices),
        _held(seats),
        sum(seats.cores.values()) + seats.unknown_cores,
    )


def _held(seats: Seats) -> int:
    return sum(seats.units.values()) + seats.unknown_units


def _less(gaps: Amounts, gift: Amounts) -> Amounts:
    return tuple(gap - given for gap, given in zip(gaps, gift, strict=True))


def _more(gaps: Amounts, gift: Amounts) -> Amounts:
    return tuple(gap + given for gap, given in zip(gaps, gift, strict=True))


def _closed(gaps: Amounts) -> bool:
    return all(gap <= 0 for gap in gaps)
