"""What a refused container is told: the request, the cards, the cause and the cure."""

from collections.abc import Mapping, Sequence

from gpushare_plugin.core.card_count import GPU_COUNT
from gpushare_plugin.core.compute import (
    CORES_A_CARD,
    cores_over_cards,
    cores_over_cards_text,
    cores_without_memory,
    means_whole_cards,
    whole_cards,
    whole_cards_text,
)
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import AllocationRefused, Refusal


def check_device_ids(device_ids: Sequence[str]) -> None:
    """Make sure that a container's devices are some, and each is there once.

    Raises:
        AllocationRefused: they are not.
    """
    if not device_ids:
        raise AllocationRefused(
            Refusal.BAD_REQUEST, "a container of no devices: expected at least one device ID"
        )
    distinct = len(set(device_ids))
    if distinct < len(device_ids):
        raise AllocationRefused(
            Refusal.BAD_REQUEST,
            f"{len(device_ids)} device IDs, of which {distinct} differ: expected each once",
        )


def check_cores(cores: int, pod: Pod | None, names: Dialect, *, node_cards: int) -> None:
    """Make sure that a container may be given so many cores, as far as its pod is known.

    Raises:
        AllocationRefused: it may not.
    """
    if pod is not None:
        check_asked_cores(pod, names, node_cards=node_cards)
        fault = cores_without_memory(pod, names)
        if fault is not None:
            raise AllocationRefused(Refusal.CORES_WITHOUT_MEMORY, fault)
    if means_whole_cards(cores, names):
        raise AllocationRefused(Refusal.WHOLE_CARDS, whole_cards_text("a container", cores, names))


def check_unknown_cores(cores: int, names: Dialect) -> None:
    """Make sure that one card has so many cores, where no pod can ask for several cards.

    Raises:
        AllocationRefused: it does not.
    """
    if cores > CORES_A_CARD:
        text = cores_over_cards_text("a container", cores, names, cards=1)
        raise AllocationRefused(Refusal.CORES_OVER_CARDS, text)


def check_asked_cores(pod: Pod, names: Dialect, *, node_cards: int) -> None:
    """Make sure that no container asks for whole cards, or for more cores than its cards have.

    Raises:
        AllocationRefused: one does.
    """
    fault = whole_cards(pod, names)
    if fault is not None:
        raise AllocationRefused(Refusal.WHOLE_CARDS, fault)
    fault = cores_over_cards(pod, names, node_cards=node_cards)
    if fault is not None:
        raise AllocationRefused(Refusal.CORES_OVER_CARDS, fault)


def several_cards_text(units_by_card: Mapping[Card, int]) -> str:
    """Say that no single card had room, whatever the kubelet counts."""
    total = sum(units_by_card.values())
    parts = ", ".join(f"{units} of card {card.index}" for card, units in units_by_card.items())
    # The kubelet counts units that pods on this card use by devices of another as free.
    used = " that no pod placed otherwise uses" if len(units_by_card) == 1 else ""
    return (
        f"a container of {total} units got {parts}: no card of this node had {total} units free"
        f"{used}, and a container is served by one card. Ask for fewer units, free a card, or"
        " place pods with the gpushare extender, which knows the cards before a pod is bound"
    )


def no_room_to_spread_text(pod: Pod, units: int, count: int, cards: Sequence[Card]) -> str:
    """Say that too few cards had room for a container's part of each."""
    return (
        f"pod {pod}, annotation {GPU_COUNT}: found {count}, and of the {len(cards)} cards of this"
        f" node fewer than {count} had {units // count} of the container's {units} units free;"
        " free a card, or place pods with the gpushare extender, which knows the cards before a"
        " pod is bound"
    )


def unhealthy_text(card: Card, reason: str) -> str:
    """Say that the card fell ill between the kubelet's choice and the call."""
    return (
        f"card {card.index} ({card.uuid}) is unhealthy: {reason}; the pod must be made anew once"
        " the card is healthy or on another node"
    )


def not_placed_text(pod: Pod | None) -> str:
    """Say that no extender chose a card, where one must."""
    name = f"pod {pod}" if pod else "a pod that the API server has not told of"
    return (
        f"{name} was not placed by the extender, and --require-extender is set: check the pod's"
        " schedulerName, and that the scheduler calls the extender for this resource"
    )
