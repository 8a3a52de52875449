"""Where a pod's units sit: on which cards of its node, and how many on each.

Rule 1: the card is that of `gpushare.io/allocation`, the truth; else the one that an
extender chose; else the only one of the node; else it is not known.
Rule 2: amounts come from the spec alone, and over several cards they are spread evenly.
Rule 3: what cannot be seated is not free: it is counted as units of an unknown card.
Knows no other pod of the node.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpushare_plugin.core.bookkeeping import ALLOCATION, choice_of
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import ContainerKind, Pod, requested_units
from gpushare_plugin.core.shared_node import SharedNode
from gpushare_plugin.errors import RecordError

Cards = tuple[int, ...]
"""Indices of cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """What one pod holds of its node, by card index."""

    units: Mapping[int, int] = field(default_factory=dict)
    cores: Mapping[int, int] = field(default_factory=dict)
    unknown_units: int = 0
    """Held, and nothing tells of which card."""
    unknown_cores: int = 0


def seats_of(pod: Pod, node: SharedNode, names: Dialect) -> Seats:
    """Return where the pod's units and cores sit on its node."""
    own = _chosen_by_container(pod, node, names)
    chosen = _the_same(own.values()) if own else _chosen(pod, node, names)
    by_container = _allocated(pod, node) or {name: cards for name, cards in own.items() if cards}
    units, unknown_units = _spread(pod, names.memory_resource, by_container, chosen)
    cores, unknown_cores = _spread(pod, names.core_resource, by_container, chosen)
    return Seats(units=units, cores=cores, unknown_units=unknown_units, unknown_cores=unknown_cores)


def _spread(
    pod: Pod, resource: str, by_container: Mapping[str, Cards], chosen: Cards
) -> tuple[Mapping[int, int], int]:
    """Return the pod's amount by card, and the rest of which the card is not known."""
    total = requested_units(pod, resource)
    if not total:
        return {}, 0
    if not by_container:
        return ({}, total) if not chosen else (_evenly(total, chosen), 0)
    seated: dict[int, int] = {}
    for container in pod.containers:
        cards = by_container.get(container.name)
        # What an init container had goes to the next one: it is in the rest, if it is more.
        if cards and container.kind is not ContainerKind.INIT:
            _add(seated, _evenly(container.requests.get(resource, 0), cards))
    rest = total - sum(seated.values())
    if rest > 0:
        cards = _home(pod, resource, by_container) or chosen
        if not cards:
            return seated, rest
        _add(seated, _evenly(rest, cards))
    return seated, 0


def _home(pod: Pod, resource: str, by_container: Mapping[str, Cards]) -> Cards:
    """Return the cards on which all of the pod is, once every container that stays has some."""
    staying = [
        by_container.get(each.name, ())
        for each in pod.containers
        if each.kind is not ContainerKind.INIT and each.requests.get(resource)
    ]
    return _the_same(staying)


def _the_same(sets: Iterable[Cards]) -> Cards:
    distinct = set(sets)
    return distinct.pop() if len(distinct) == 1 else ()


def _evenly(amount: int, cards: Cards) -> dict[int, int]:
    each, over = divmod(amount, len(cards))
    return {card: each + (place < over) for place, card in enumerate(cards)}


def _add(seated: dict[int, int], more: Mapping[int, int]) -> None:
    for card, amount in more.items():
        seated[card] = seated.get(card, 0) + amount


def _allocated(pod: Pod, node: SharedNode) -> Mapping[str, Cards]:
    """Return the cards by container that the node told of; empty if it did not, or of others."""
    text = pod.annotations.get(ALLOCATION)
    if text is None:
        return {}
    try:
        content = json.loads(text)
        found = {name: _indices(node, uuids) for name, uuids in content.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return found if all(found.values()) else {}


def _indices(node: SharedNode, uuids: Iterable[str]) -> Cards:
    """Return the cards with these UUIDs, each once; none if one of them is no card of the node."""
    cards = [node.card_of(uuid) for uuid in uuids]
    found = {card.index for card in cards if card is not None}
    return () if None in cards else tuple(sorted(found))


def _chosen(pod: Pod, node: SharedNode, names: Dialect) -> Cards:
    """Return the cards that were chosen for the pod, or the only one; empty if it isn't known."""
    try:
        choice = choice_of(pod, names.annotations)
    except RecordError:
        return ()
    if choice is None:
        return (0,) if len(node.cards) == 1 else ()
    return choice.cards if max(choice.cards) < len(node.cards) else ()


def _chosen_by_container(pod: Pod, node: SharedNode, names: Dialect) -> Mapping[str, Cards]:
    """Return the cards of each annotated container, in a dialect where each has its own.

    A container has none where the annotation does not parse, or names no card of the node.
    """
    key = names.annotations.container_card_index
    if key is None:
        return {}
    mains = [each.name for each in pod.containers if each.kind is ContainerKind.MAIN]
    annotated = [name for n, name in enumerate(mains) if key.format(n) in pod.annotations]
    found: dict[str, Cards] = {}
    for name in annotated:
        try:
            choice = choice_of(pod, names.annotations, served=set(mains) - {name})
        except RecordError:
            choice = None
        cards = choice.cards if choice is not None else ()
        found[name] = cards if all(card < len(node.cards) for card in cards) else ()
    return found
