"""Over how many cards a pod is to be spread: what its author asked for, and whether it can be.

Rule 1: a wish that cannot be carried out is a fault that is told, with the count, the units,
the cards and the cure; the pod is then placed as if it had asked for one card.
Rule 2: node and extender judge by the same function, so that neither places what the other
would not.
Rule 3: nothing here knows which cards are free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from gpushare_plugin.core.pods import Container, ContainerKind, Pod

GPU_COUNT = "gpushare.io/gpu-count"
"""Set by a user: over how many cards each container is spread."""
MOST_CARDS = 64
LONGEST_NUMBER = 4
"""Digits; an annotation may have 256 KiB of them."""
LONGEST_SHOWN = 80
MOST_LISTED = 4
"""Containers in a message, which is told of each of 5,000 nodes: a pod may have thousands."""


class CountFault(Enum):
    """Why a number of cards is not carried out; the value is the metric's label."""

    UNREADABLE = "unreadable"
    TOO_MANY_CARDS = "too_many_cards"
    INIT_CONTAINER = "init_container"
    INDIVISIBLE = "indivisible"
    NO_ROOM = "no_room"
    """It could be, but at that moment not so many cards had the units free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCount:
    """Over how many cards each container of a pod is spread."""

    cards: int = 1
    fault: CountFault | None = None
    """Why it is one card, though the pod asks for another number."""
    message: str = ""
    """The fault in words: the pod, the count, the units, the cards and the cure."""


def card_count_of(pod: Pod, resource: str, *, node_cards: int | None) -> CardCount:
    """Return over how many of the node's cards the pod's containers are spread.

    `node_cards` is how many the node has; None where no node is in question yet.
    """
    text = pod.annotations.get(GPU_COUNT)
    if text is None:
        return CardCount()
    count = number(text)
    if count is None or not 1 <= count <= MOST_CARDS:
        found = f"found {shown(text)}, expected a number of cards from 1 to {MOST_CARDS}"
        cure = "write the number as plain digits, or take the annotation off"
        return _fault(pod, resource, node_cards, CountFault.UNREADABLE, f"{found}; {cure}")
    if count == 1:
        return CardCount()
    fault = _fault_of(pod, resource, count=count, node_cards=node_cards)
    return CardCount(cards=count) if fault is None else _fault(pod, resource, node_cards, *fault)


def _fault_of(
    pod: Pod, resource: str, *, count: int, node_cards: int | None
) -> tuple[CountFault, str] | None:
    """Return why these containers cannot be spread over so many cards, and the cure."""
    if node_cards is not None and count > node_cards:
        return CountFault.TOO_MANY_CARDS, (
            f"found {count}, and this node shares {node_cards}; ask for at most {node_cards} cards,"
            " or have the pod placed on a node with more"
        )
    for container, units in _asking(pod, resource):
        if container.kind is ContainerKind.INIT:
            return CountFault.INIT_CONTAINER, (
                f"found {count}, and init container {container.name} asks for {units} units, which"
                " the kubelet hands on to the next container; take the request off the init"
                " container, or the annotation off the pod"
            )
    for container, units in _asking(pod, resource):
        if units % count:
            below = units - units % count
            cure = f"{below} or {below + count}" if below else f"{count}"
            return CountFault.INDIVISIBLE, (
                f"found {count}, and the {units} units of container {container.name} do not divide"
                f" by it; ask for {cure} units, or for another number of cards"
            )
    return None


def _fault(
    pod: Pod, resource: str, node_cards: int | None, fault: CountFault, text: str
) -> CardCount:
    on_node = "" if node_cards is None else f"; cards of this node: {node_cards}"
    units = listed([f"{each.name} {units}" for each, units in _asking(pod, resource)]) or "none"
    return CardCount(
        fault=fault,
        message=(f"pod {pod} ({resource}: {units}{on_node}), annotation {GPU_COUNT}: {text}"),
    )


def _asking(pod: Pod, resource: str) -> list[tuple[Container, int]]:
    found = [(each, each.requests.get(resource, 0)) for each in pod.containers]
    return [(each, units) for each, units in found if units > 0]


def number(text: str) -> int | None:
    """Return a small number in plain digits; None for anything else."""
    if len(text) > LONGEST_NUMBER or not text.isascii() or not text.isdecimal():
        return None
    return int(text)


def listed(texts: Sequence[str]) -> str:
    """Return the first few of some texts for a message, and how many more there are."""
    more = len(texts) - MOST_LISTED
    first = ", ".join(texts[:MOST_LISTED])
    return f"{first} and {more} more" if more > 0 else first


def shown(text: str) -> str:
    """Return a text for a message, quoted, and cut where it is long."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")
