"""What a refused container is told: the request, the cards, the cause and the cure."""

from collections.abc import Mapping, Sequence

from gpushare_plugin.core.devices import Card
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


def several_cards_text(units_by_card: Mapping[Card, int]) -> str:
    """Say that no single card had room."""
    total = sum(units_by_card.values())
    parts = ", ".join(f"{units} of card {card.index}" for card, units in units_by_card.items())
    return (
        f"a container of {total} units got {parts}: no card of this node had {total} units free,"
        " and a container is served by one card. Ask for fewer units, free a card, or place pods"
        " with the gpushare extender, which knows the cards before a pod is bound"
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
