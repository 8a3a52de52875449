"""A node as the scheduler's side sees it: its cards, and whether anything new may go there.

Rule 1: the cards are those of `gpushare.io/gpus`; without it (the original's plugin) they
are alike, `capacity // count` units each.
Rule 2: whatever is wrong with the node is its `problem`, a text for who waits for it: its
cards stay where they are known, so that what is used counts, and nothing new goes there.
A cordon is none: kube-scheduler knows which pods tolerate it.
Rule 3: what does not parse is a problem, never "no cards" or "healthy".
Knows no pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpushare_plugin.core.card_count import MOST_CARDS, shown
from gpushare_plugin.core.card_record import Record
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.node_record import GPUS, HEALTH, parse_gpus, parse_health
from gpushare_plugin.core.quantity import parse_quantity
from gpushare_plugin.core.units import unit_text
from gpushare_plugin.errors import QuantityError, RecordError

NONE_UNHEALTHY: frozenset[int] = frozenset()
_PLAIN_UNITS = frozenset({"GiB", "MiB"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCard:
    """One card of a node."""

    index: int
    uuid: str
    """Empty where the node has no record of ours."""
    model: str
    """Empty where the node has no record of ours."""
    units: int
    healthy: bool = True
    numa: int | None = None
    """The NUMA node; None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNode:
    """One node, and its cards by index, from 0 without gaps."""

    name: str
    cards: tuple[SharedCard, ...] = ()
    links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """NVLink lanes by the indices of two cards, the lower first."""
    unit_mib: int | None = None
    """What a unit stands for; None where the node has no record of ours."""
    problem: str = ""
    """Why nothing new may go there; empty if all is well."""

    @property
    def unit(self) -> str:
        """What a number of units is called, as in `8 GiB` or `8 units of 256MiB`."""
        if self.unit_mib is None:
            return "units"
        text = unit_text(self.unit_mib)
        return text if text in _PLAIN_UNITS else f"units of {text}"

    def card_of(self, uuid: str) -> SharedCard | None:
        """Return the card with that UUID."""
        return next((card for card in self.cards if card.uuid == uuid), None) if uuid else None


@dataclass(frozen=True, slots=True)
class _Status:
    """The node's own numbers, in units and cards."""

    capacity: int
    allocatable: int
    count: int


def shared_node(  # noqa: PLR0913 - the facts of one node, each from another place
    name: str,
    *,
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    ready: bool,
    names: Dialect,
    unhealthy_indices: frozenset[int] = NONE_UNHEALTHY,
) -> SharedNode:
    """Return the node; what is wrong with it is its `problem`, and raises nothing.

    `unhealthy_indices` are the cards that a ConfigMap of the original's calls unhealthy.
    """
    try:
        record = parse_gpus(annotations[GPUS]) if GPUS in annotations else None
        troubles = parse_health(annotations[HEALTH]) if HEALTH in annotations else {}
        status = _status(capacity, allocatable, names)
        cards = _recorded(record) if record else _alike(status, names)
    except (QuantityError, RecordError) as error:
        return SharedNode(name=name, problem=str(error))
    return SharedNode(
        name=name,
        cards=tuple(_with_health(card, troubles, unhealthy_indices) for card in cards),
        links=record.links if record else {},
        unit_mib=record.unit_mib if record else None,
        problem=_problem(status, cards, names, ready=ready),
    )


def _status(capacity: Mapping[str, str], allocatable: Mapping[str, str], names: Dialect) -> _Status:
    return _Status(
        capacity=_amount(capacity, names.memory_resource, "capacity"),
        allocatable=_amount(allocatable, names.memory_resource, "allocatable"),
        count=_amount(capacity, names.count_resource, "capacity") if names.count_resource else 0,
    )


def _amount(amounts: Mapping[str, str], resource: str, field_name: str) -> int:
    try:
        return parse_quantity(amounts.get(resource, "0"))
    except QuantityError as error:
        raise QuantityError(f"status.{field_name}[{resource}]: {error}") from error


def _recorded(record: Record) -> tuple[SharedCard, ...]:
    return tuple(
        SharedCard(
            index=card.index,
            uuid=card.uuid,
            model=card.model,
            units=card.units,
            numa=card.numa_node,
        )
        for card in record.cards
    )


def _alike(status: _Status, names: Dialect) -> tuple[SharedCard, ...]:
    """Return the cards of a node without a record, as the original counts them."""
    if status.capacity == 0 or status.count == 0:
        return ()
    if status.count > MOST_CARDS:
        raise RecordError(
            f"status.capacity[{names.count_resource}]: found {shown(str(status.count))}, expected"
            f" at most {MOST_CARDS} cards"
        )
    each = status.capacity // status.count
    return tuple(
        SharedCard(index=index, uuid="", model="", units=each) for index in range(status.count)
    )


def _with_health(
    card: SharedCard, troubles: Mapping[str, str], unhealthy_indices: frozenset[int]
) -> SharedCard:
    if card.uuid not in troubles and card.index not in unhealthy_indices:
        return card
    return replace(card, healthy=False)


def _problem(status: _Status, cards: tuple[SharedCard, ...], names: Dialect, *, ready: bool) -> str:
    if status.capacity == 0 and not cards:
        return f"shares no GPU: its status has no {names.memory_resource}"
    if status.capacity == 0:
        return (
            f"its device plugin is not ready: {GPUS} names {len(cards)} cards, and the status has"
            f" no {names.memory_resource}"
        )
    if not cards:
        return (
            f"its device plugin is not ready: the status has {status.capacity}"
            f" {names.memory_resource}, and neither {GPUS} nor {names.count_resource or 'a count'}"
            " tells of how many cards"
        )
    if not ready:
        return "it is not ready: what its cards hold is not known"
    if status.allocatable == 0:
        return (
            f"it gives out no {names.memory_resource} now: its device plugin is gone, or all of"
            " its cards are unhealthy"
        )
    return ""
