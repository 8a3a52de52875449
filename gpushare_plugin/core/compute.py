"""Compute units, *cores*: 100 for each card, and they name no card.

Rule 1: a container's cores count on the card of its memory; without memory there is no
card for them, and the container is refused.
Rule 2: an ID is a number and nothing more, so the unhealthy ones are the highest: it is
their count that is told.
Rule 3: a card has 100, so a container has at most 100 for each card that it is spread over.
Rule 4: what a pod may not ask is said here, once, for every part that refuses it.
"""

import re
from collections.abc import Iterator

from gpushare_plugin.core.card_count import GPU_COUNT, card_count_of, listed
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import Container, Pod

CORES_A_CARD = 100
CORE_PREFIX = "core"

_CORE_ID = re.compile(rf"{CORE_PREFIX}-(?P<number>0|[1-9][0-9]{{0,6}})")


def core_number(device_id: str) -> int | None:
    """Return the number that an ID of a core says; None if it is none."""
    match = _CORE_ID.fullmatch(device_id)
    return int(match["number"]) if match else None


def cores_without_memory(pod: Pod, names: Dialect) -> str | None:
    """Return what is wrong where a container asks for cores and no memory; None if none does."""
    without = [
        container.name
        for container, _ in _asking(pod, names)
        if not container.requests.get(names.memory_resource)
    ]
    if not without:
        return None
    return (
        f"pod {pod}, container {listed(without)} asks for {names.core_resource} and no"
        f" {names.memory_resource}: cores count on the card of a container's memory; give the"
        f" container a limit of {names.memory_resource} too"
    )


def whole_cards(pod: Pod, names: Dialect) -> str | None:
    """Return what is wrong where a container asks for whole cards; None if none does."""
    for container, cores in _asking(pod, names):
        if means_whole_cards(cores, names):
            return whole_cards_text(f"pod {pod}, container {container.name}", cores, names)
    return None


def means_whole_cards(cores: int, names: Dialect) -> bool:
    """Say whether so many cores of one container stand for whole cards."""
    return names.whole_card_cores is not None and cores >= names.whole_card_cores


def whole_cards_text(who: str, cores: int, names: Dialect) -> str:
    """Say that whole cards cannot be had, and what can."""
    most = CORES_A_CARD - 1
    return (
        f"{who} asks for {cores} {names.core_resource}: from {CORES_A_CARD} on that means whole"
        f" cards, which are not supported yet; ask for at most {most}, and for the"
        f" {names.memory_resource} that the container needs"
    )


def cores_over_cards(pod: Pod, names: Dialect, *, node_cards: int | None) -> str | None:
    """Return what is wrong where a container asks for more cores than its cards have."""
    cards = card_count_of(pod, names.memory_resource, node_cards=node_cards).cards
    for container, cores in _asking(pod, names):
        if cores > CORES_A_CARD * cards:
            who = f"pod {pod}, container {container.name}"
            return cores_over_cards_text(who, cores, names, cards=cards)
    return None


def cores_over_cards_text(who: str, cores: int, names: Dialect, *, cards: int) -> str:
    """Say that the container's cards do not have so many cores, and what can be had."""
    on = "one card" if cards == 1 else f"{cards} cards"
    return (
        f"{who} asks for {cores} {names.core_resource}: a card has {CORES_A_CARD}, and the"
        f" container is on {on}; ask for at most {CORES_A_CARD * cards}, or for more cards by the"
        f" annotation {GPU_COUNT}"
    )


def _asking(pod: Pod, names: Dialect) -> Iterator[tuple[Container, int]]:
    for container in pod.containers:
        cores = container.requests.get(names.core_resource, 0)
        if cores > 0:
            yield container, cores
