"""Choose the card that a container goes to, out of what the kubelet offers.

Rule 1: a container goes whole to one card; a policy only ranks cards that can
hold it, it never decides whether one can.
Rule 2: ties go to the lowest card index, so equal inputs give the same card.
Rule 3: an answer is always given. Where no card can hold the request, it is the
one that will be refused most clearly: the fullest offer first, then the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from gpushare_plugin.core.devices import Card, CardTable
from gpushare_plugin.errors import DeviceIdError


class Policy(Enum):
    """How containers are laid out over the cards of a node."""

    BINPACK = "binpack"
    """Best fit: the card that the container leaves with the fewest free units."""
    SPREAD = "spread"
    """The card with the most free units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOffer:
    """The free units of one card that the kubelet offers to a container."""

    card: Card
    free_ids: tuple[str, ...]
    withheld_units: int = 0
    """Of these, as many as are used by pods whose devices are not of this card."""

    @property
    def free_units(self) -> int:
        """How many units the card has left."""
        return max(0, len(self.free_ids) - self.withheld_units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the kubelet asks of GetPreferredAllocation for one container."""

    available_ids: Sequence[str]
    must_include_ids: Sequence[str]
    """Held over from the pod's init containers; `size` counts them."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is known of the container's pod; the default is that nothing is."""

    chosen: tuple[int, ...] = ()
    """The indices of the cards that an extender chose."""
    held: frozenset[str] = frozenset()
    """The UUIDs of the cards that other containers of the pod hold units of."""
    pod_units: int = 0
    """What the pod asks for in all, this container included."""
    card_count: int = 1
    """Over how many cards the container is to be spread evenly."""


NOTHING_KNOWN = Wish()
NOTHING_WITHHELD: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The devices that a container had best be given, and their cards.

    `cards` is empty where the request cannot be held as it should be.
    """

    device_ids: tuple[str, ...]
    cards: tuple[Card, ...]

    @property
    def card(self) -> Card | None:
        """The card, where it is one."""
        return self.cards[0] if len(self.cards) == 1 else None


class FreeUnits(Protocol):
    """A card, by what it has left."""

    @property
    def free_units(self) -> int:
        """How many units the card has left."""


Rank = Callable[[FreeUnits], int]

RANKS: Mapping[Policy, Rank] = {
    Policy.BINPACK: lambda card: card.free_units,
    Policy.SPREAD: lambda card: -card.free_units,
}


def choose(offers: Sequence[CardOffer], *, units: int, policy: Policy) -> CardOffer | None:
    """Return the offer that the policy likes best among those that can hold `units`."""
    rank = RANKS[policy]
    fitting = [offer for offer in offers if offer.free_units >= units]
    return min(fitting, key=lambda offer: (rank(offer), offer.card.index), default=None)


def propose(
    request: Request,
    table: CardTable,
    policy: Policy,
    wish: Wish = NOTHING_KNOWN,
    *,
    withheld: Mapping[str, int] = NOTHING_WITHHELD,
) -> Proposal:
    """Return the devices for one container; IDs that are not ours are passed over.

    The card that the extender chose is preferred, then one that the pod holds units of
    already, then one that could hold the whole pod, then any that holds the container. Where
    no cards can hold it spread, it is placed as one that was to go to one card.
    `withheld` says by card UUID how many units are used that the kubelet takes for free.
    """
    offers = _offers([*request.must_include_ids, *request.available_ids], table, withheld)
    held = _offers(request.must_include_ids, table, NOTHING_WITHHELD)
    # Devices held over from init containers tie the container to their card.
    held_uuids = {offer.card.uuid for offer in held}
    candidates = [each for each in offers if not held_uuids or {each.card.uuid} == held_uuids]
    if wish.card_count > 1 and not held_uuids:
        spread = _spread_over(wish.card_count, request, candidates, wish, policy)
        if spread is not None:
            return spread
    for preferred in _preferences(candidates, replace(wish, card_count=1)):
        chosen = choose(preferred, units=request.size, policy=policy)
        if chosen is not None:
            return Proposal(device_ids=_first(request, chosen.free_ids), cards=(chosen.card,))
    return _unheld(request, offers, wish)


def _preferences(offers: Sequence[CardOffer], wish: Wish) -> Sequence[Sequence[CardOffer]]:
    return (
        [offer for offer in offers if offer.card.index in wish.chosen],
        [offer for offer in offers if offer.card.uuid in wish.held],
        [offer for offer in offers if offer.free_units * wish.card_count >= wish.pod_units],
        offers,
    )


def _spread_over(
    count: int,
    request: Request,
    offers: Sequence[CardOffer],
    wish: Wish,
    policy: Policy,
) -> Proposal | None:
    """Return the container's units split evenly over the same cards as the pod's others.

    None where they do not divide, or too few cards have room.
    """
    units, rest = divmod(request.size, count)
    chosen: list[CardOffer] = []
    for preferred in _preferences(offers, wish):
        while not rest and len(chosen) < count:
            others = [offer for offer in preferred if offer not in chosen]
            offer = choose(others, units=units, policy=policy)
            if offer is None:
                break
            chosen.append(offer)
    if rest or len(chosen) < count:
        return None
    chosen.sort(key=lambda offer: offer.card.index)
    device_ids = tuple(each for offer in chosen for each in offer.free_ids[:units])
    return Proposal(device_ids=device_ids, cards=tuple(offer.card for offer in chosen))


def _unheld(request: Request, offers: Sequence[CardOffer], wish: Wish) -> Proposal:
    # A card that another extender chose is over-committed: its own units go first, so that
    # what the kubelet counts is as near to the truth as can be.
    by_size = sorted(
        offers,
        key=lambda offer: (
            offer.card.index not in wish.chosen,
            -offer.free_units,
            offer.card.index,
        ),
    )
    rest = [device_id for offer in by_size for device_id in offer.free_ids]
    return Proposal(device_ids=_first(request, rest), cards=())


def _first(request: Request, device_ids: Sequence[str]) -> tuple[str, ...]:
    """Return `size` IDs, those that must be included before all others."""
    ordered = dict.fromkeys([*request.must_include_ids, *device_ids])
    return tuple(ordered)[: max(0, request.size)]


def _offers(
    device_ids: Sequence[str], table: CardTable, withheld: Mapping[str, int]
) -> list[CardOffer]:
    # By tag: a card's own hash covers all its fields, and there are thousands of IDs.
    found: dict[str, set[str]] = {}
    for device_id in device_ids:
        try:
            found.setdefault(table.of_device(device_id).tag, set()).add(device_id)
        except DeviceIdError:
            continue
    return [
        CardOffer(
            card=card,
            free_ids=tuple(sorted(found[card.tag], key=_by_ordinal)),
            withheld_units=withheld.get(card.uuid, 0),
        )
        for card in table.cards
        if card.tag in found
    ]


def _by_ordinal(device_id: str) -> tuple[int, str]:
    """Sort one card's IDs by number: those have no leading zeros, so the longer is the larger."""
    return len(device_id), device_id
