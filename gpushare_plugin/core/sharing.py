"""Which GPUs become cards, with which index and how many units.

Rule 1: a card keeps its index and its units for as long as it is known, whatever
comes, goes or changes place in NVML's order.
Rule 2: a GPU that cannot be shared is left out with a reason; the others go on.
Rule 3: the device list must fit into one message with every device Unhealthy,
since that is what the kubelet will one day be sent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpushare_plugin.core.devices import (
    MESSAGE_LIMIT_BYTES,
    Card,
    Gpu,
    card_tags,
    worst_case_message_bytes,
)
from gpushare_plugin.core.units import UnitRule, uniform_units, unit_text
from gpushare_plugin.errors import UnitError

UNNAMED = "NVML index "
MANY_UNITS = 2_000
"""From here on the kubelet and the pod's status carry more IDs than is good for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A GPU that is not shared, and why."""

    name: str
    """Its UUID, or where it does not tell one `NVML index <n>`."""
    reason: str
    lost: bool = False
    """It is not there any more, by NVML's own word."""

    @property
    def may_be_any(self) -> bool:
        """Whether it may be any card that is not shown otherwise."""
        return self.name.startswith(UNNAMED) and not self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRule:
    """How the GPUs of this node are shared."""

    units: UnitRule
    uniform: bool = False
    """Every card advertises what the smallest has, for schedulers that know one size only."""
    with_numa: bool = False
    """The device list names NUMA nodes."""
    needs_minor: bool = False
    """Containers get the card's device node, so a GPU without a minor number cannot be shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The outcome: the shared cards by index, and what was left out."""

    cards: tuple[Card, ...]
    left_out: tuple[LeftOut, ...]


def share(gpus: Sequence[Gpu], rule: SharingRule, *, known: Sequence[Card] = ()) -> Sharing:
    """Return the cards of the node: the known ones first, then new ones in NVML order.

    A known card whose GPU is not among `gpus` stays: it is lost, not gone.

    Raises:
        UnitError: the first device list would be larger than the kubelet takes.
    """
    kept = _refresh(known, gpus)
    shown = {gpu.uuid for gpu in gpus}
    known_uuids = {card.uuid for card in known}
    new = [gpu for gpu in gpus if gpu.uuid not in known_uuids]
    # A known card that cannot be shared now keeps its place: what is told of it is why.
    looked_at = [*(card.gpu for card in kept if card.uuid in shown), *new]
    left_out = [each for gpu in looked_at if (each := obstacle(gpu, rule)) is not None]
    units = {gpu.uuid: rule.units.units(gpu.memory) for gpu in new}
    fitting = [gpu for gpu in new if obstacle(gpu, rule) is None]
    if rule.uniform:
        size = kept[0].units if kept else uniform_units([units[gpu.uuid] for gpu in fitting])
        left_out += [_not_uniform(gpu, size) for gpu in fitting if units[gpu.uuid] < size]
        fitting = [gpu for gpu in fitting if units[gpu.uuid] >= size]
        units = dict.fromkeys(units, size)
    tags = _tags(kept, fitting)
    cards = [
        Card(index=index, tag=tags[gpu.uuid], units=units[gpu.uuid], gpu=gpu)
        for index, gpu in enumerate(fitting, start=len(kept))
    ]
    if not kept:
        check_message(cards, rule)
    fitting_cards, too_many = _as_many_as_fit(kept, cards, rule)
    return Sharing(cards=fitting_cards, left_out=(*left_out, *too_many))


def obstacle(gpu: Gpu, rule: SharingRule) -> LeftOut | None:
    """Return why a GPU that NVML shows cannot be shared, or None."""
    if gpu.minor_number is None and rule.needs_minor:
        reason = "NVML knows no minor number for it; --device-injection envvar or cdi needs none"
        return LeftOut(name=gpu.uuid, reason=reason)
    if rule.units.units(gpu.memory) == 0:
        unit, total_mib = unit_text(rule.units.unit_mib), gpu.memory.total_bytes >> 20
        return LeftOut(name=gpu.uuid, reason=f"its {total_mib} MiB do not hold one unit of {unit}")
    return None


def check_message(cards: Sequence[Card], rule: SharingRule) -> None:
    """Make sure that the device list fits into one message.

    Raises:
        UnitError: it does not; names the smallest unit that would.
    """
    size_bytes = _message_bytes(cards, rule)
    if size_bytes <= MESSAGE_LIMIT_BYTES:
        return
    fits = unit_text(_smallest_unit_mib([card.gpu for card in cards], rule))
    raise UnitError(
        f"memory unit {unit_text(rule.units.unit_mib)}: {sum(card.units for card in cards)}"
        f" units on {len(cards)} cards make a device list of up to {size_bytes} bytes, and the"
        f" kubelet takes {MESSAGE_LIMIT_BYTES}; the smallest unit that fits here is {fits}"
        " (256MiB or more is advised: each unit of a container is written into its pod's status)"
    )


def cards_with_many_units(cards: Iterable[Card]) -> tuple[Card, ...]:
    """Return the cards with so many units that pods and kubelet will feel it."""
    return tuple(card for card in cards if card.units > MANY_UNITS)


def _refresh(known: Sequence[Card], gpus: Sequence[Gpu]) -> tuple[Card, ...]:
    # NVML index and minor number may have moved under a card; its share has not.
    now = {gpu.uuid: gpu for gpu in gpus}
    return tuple(
        replace(card, gpu=_as_now(card.gpu, now[card.uuid])) if card.uuid in now else card
        for card in known
    )


def _as_now(before: Gpu, now: Gpu) -> Gpu:
    # A container can be given no device node of a number that NVML fails to tell just now.
    minor = before.minor_number if now.minor_number is None else now.minor_number
    return replace(now, minor_number=minor)


def _tags(kept: Sequence[Card], new: Sequence[Gpu]) -> dict[str, str]:
    tags = card_tags([*(card.uuid for card in kept), *(gpu.uuid for gpu in new)])
    taken = {card.tag for card in kept}
    for gpu in new:
        # A late card that clashes with a known one must not change the known one's IDs.
        if tags[gpu.uuid] in taken:
            tags[gpu.uuid] = card_tags([f"{gpu.uuid}#late"])[f"{gpu.uuid}#late"]
    return tags


def _as_many_as_fit(
    kept: Sequence[Card], new: Sequence[Card], rule: SharingRule
) -> tuple[tuple[Card, ...], list[LeftOut]]:
    fitting = list(kept)
    for card in new:
        if _message_bytes([*fitting, card], rule) > MESSAGE_LIMIT_BYTES:
            reason = "the device list would grow over what the kubelet takes; use a larger unit"
            return tuple(fitting), [
                LeftOut(name=late.uuid, reason=reason) for late in new[card.index - len(kept) :]
            ]
        fitting.append(card)
    return tuple(fitting), []


def _message_bytes(cards: Sequence[Card], rule: SharingRule) -> int:
    return worst_case_message_bytes([card.units for card in cards], with_numa=rule.with_numa)


def _smallest_unit_mib(gpus: Sequence[Gpu], rule: SharingRule) -> int:
    """Return the smallest whole MiB whose device list fits; units only shrink as it grows."""
    low, high = rule.units.unit_mib + 1, max(gpu.memory.total_bytes for gpu in gpus) >> 20
    while low < high:
        middle = (low + high) // 2
        candidate = replace(rule.units, unit_mib=middle)
        units = [candidate.units(gpu.memory) for gpu in gpus]
        if rule.uniform:
            units = [uniform_units(units)] * len(units)
        if worst_case_message_bytes(units, with_numa=rule.with_numa) <= MESSAGE_LIMIT_BYTES:
            high = middle
        else:
            low = middle + 1
    return low


def _not_uniform(gpu: Gpu, size: int) -> LeftOut:
    return LeftOut(
        name=gpu.uuid, reason=f"it holds fewer than the {size} units that every card advertises"
    )
