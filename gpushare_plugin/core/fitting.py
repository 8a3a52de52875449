"""Whether a pod fits on a node, on which cards, and if not, why.

Rule 1: a fit is a card (or the asked number of them) with room; what is free on the node
in all decides nothing.
Rule 2: a policy ranks cards that can hold the pod, and never decides whether they can.
`preference` is the one key for cards and for nodes: the best node holds the best cards.
Rule 3: a misfit is resolvable if the pod would fit once others went; else nobody is to be
evicted in vain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpushare_plugin.core import reasons
from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.placement import RANKS
from gpushare_plugin.core.room import CardRoom, NodeRoom

Preference = tuple[int, int, int]
"""The smaller, the better: NVLink lanes (negative), NUMA nodes, the policy's rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a pod does not fit on a node."""

    reason: str
    """For the pod's author; it begins with the node's name."""
    resolvable: bool
    """Whether it might fit if other pods went."""


def fit(room: NodeRoom, ask: Ask) -> tuple[CardRoom, ...] | Misfit:
    """Return the cards that the pod is to go to, by index, or why there are none.

    A pod that asks for no unit fits everywhere, on no card.
    """
    if not ask.units:
        return ()
    able = able_cards(room, ask)
    if isinstance(able, Misfit):
        return able
    roomy = [each for each in able if _has_room(each, ask)]
    starts = _starts(roomy, ask)
    if not starts or len(roomy) < ask.card_count:
        return Misfit(reason=reasons.no_room(room, able, ask), resolvable=True)
    rank = RANKS[ask.policy]
    if ask.card_count == 1:
        return (min(starts, key=lambda each: (rank(each), each.card.index)),)
    sets = [_grown(start, roomy, room, ask) for start in starts]
    return min(sets, key=lambda cards: (preference(room, cards, ask), _indices(cards)))


def able_cards(room: NodeRoom, ask: Ask) -> tuple[CardRoom, ...] | Misfit:
    """Return the cards that could hold the pod if they were empty, or why they are too few."""
    if room.node.problem:
        return _never(reasons.node_problem(room))
    able = tuple(each for each in room.cards if _is_able(each, ask))
    if not any(ask.takes_model(each.card.model) for each in room.cards):
        return _never(reasons.other_models(room, ask))
    if ask.pinned is not None and not _starts(able, ask):
        return _never(reasons.pinned_card(room, ask))
    if len(able) < ask.card_count:
        return _never(reasons.too_few_cards(room, ask))
    return able


def preference(room: NodeRoom, cards: Sequence[CardRoom], ask: Ask) -> Preference:
    """Return the key by which cards that can hold the pod are ranked, on whatever node."""
    rank = RANKS[ask.policy]
    if len(cards) == 1:
        return 0, 1, rank(cards[0])
    indices, links = _indices(cards), room.node.links
    lanes = sum(links.get((low, high), 0) for low in indices for high in indices)
    # A card of which nothing tells the NUMA node counts as on one of its own.
    places = {-1 - each.card.index if each.card.numa is None else each.card.numa for each in cards}
    return -lanes, len(places), sum(rank(each) for each in cards)


def _is_able(each: CardRoom, ask: Ask) -> bool:
    """Say whether the card could hold its part of the pod if it were empty."""
    card = each.card
    return card.healthy and card.units >= ask.units_per_card and ask.takes_model(card.model)


def _has_room(each: CardRoom, ask: Ask) -> bool:
    return each.has(ask.units_per_card, ask.cores_per_card)


def _starts(cards: Sequence[CardRoom], ask: Ask) -> Sequence[CardRoom]:
    """Return those of the cards of which one must be taken."""
    if ask.pinned is None:
        return cards
    return [each for each in cards if each.card.index == ask.pinned]


def _grown(
    start: CardRoom, roomy: Sequence[CardRoom], room: NodeRoom, ask: Ask
) -> tuple[CardRoom, ...]:
    """Return the cards that one gets from a first one, each next one the nearest, by index."""
    rank, links = RANKS[ask.policy], room.node.links
    rest = {each.card.index: each for each in roomy}
    lanes, neighbours = dict.fromkeys(rest, 0), dict.fromkeys(rest, 0)
    found = [rest.pop(start.card.index)]
    while len(found) < ask.card_count:
        last = found[-1].card
        for index, each in rest.items():
            pair = (min(index, last.index), max(index, last.index))
            lanes[index] += links.get(pair, 0)
            neighbours[index] += last.numa is not None and last.numa == each.card.numa
        nearest = min(
            rest, key=lambda index: (-lanes[index], -neighbours[index], rank(rest[index]), index)
        )
        found.append(rest.pop(nearest))
    return tuple(sorted(found, key=lambda each: each.card.index))


def _indices(cards: Sequence[CardRoom]) -> tuple[int, ...]:
    return tuple(each.card.index for each in cards)


def _never(reason: str) -> Misfit:
    return Misfit(reason=reason, resolvable=False)
