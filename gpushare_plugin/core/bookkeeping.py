"""What a pod is annotated with: the card that was chosen for it, and what it really got.

Rule 1: amounts come from the spec, and the card from the device IDs; an annotation
is read for the card that was *chosen*, nothing else.
Rule 2: what happened is written, and only what differs from what stands there.
Rule 3: the original's card index is corrected only on pods with our extender's mark:
the Go extender never forgets the old index of a pod that it knows.
Rule 4: a pod that holds devices of the original's plugin is left as it is; its units count
on the card that its annotation names.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpushare_plugin.core.association import ContainerDevices, ListedPod
from gpushare_plugin.core.card_count import card_count_of, number, shown
from gpushare_plugin.core.devices import Card, CardTable, is_foreign_id
from gpushare_plugin.core.dialect import PodAnnotationNames
from gpushare_plugin.core.ledger import Holding, keep_ledger
from gpushare_plugin.core.pods import Container, ContainerKind, Pod, requested_units
from gpushare_plugin.errors import RecordError

ALLOCATION = "gpushare.io/allocation"
"""`{"<container>":{"<card UUID>":units}}`: the truth."""
MARK = "gpushare.io/extender"
"""`"1"`: our extender chose the card."""
FRAMEWORK_ALLOCATION = "scheduler.framework.gpushare.allocation"
"""`{"<container number>":{"<card index>":units}}`: what the original's inspect reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cards that an extender chose for a pod, by index."""

    cards: tuple[int, ...]
    ours: bool
    """Our extender did; else another one."""


def choice_of(
    pod: Pod, names: PodAnnotationNames, *, served: Collection[str] = ()
) -> Choice | None:
    """Return the cards that were chosen for the pod; None if none was.

    Where each container has its own, they are those of the first one that is not `served`
    yet: containers are served in their order.

    Raises:
        RecordError: the annotation does not parse; it names pod, annotation and value.
    """
    keys = [names.card_index] if names.card_index else []
    if names.container_card_index:
        keys += _container_keys(pod, names.container_card_index, served)
    cards: list[int] = []
    for key in keys:
        text = pod.annotations.get(key)
        if text is not None:
            cards += [_card_index(pod, key, part) for part in text.split(",")]
    if not cards:
        return None
    return Choice(cards=tuple(dict.fromkeys(cards)), ours=pod.annotations.get(MARK) == "1")


def _container_keys(pod: Pod, key: str, served: Collection[str]) -> list[str]:
    by_key = {key.format(number): each.name for number, each in enumerate(_mains(pod))}
    annotated = [each for each in by_key if each in pod.annotations]
    return [each for each in annotated if by_key[each] not in served][:1] or annotated


def as_served(
    holding: Holding, table: CardTable, names: PodAnnotationNames, resource: str
) -> Holding:
    """Return what the pod's containers were really given, which the IDs do not always tell.

    IDs of several cards that the pod did not ask to be spread over were served with the
    card that another extender chose: the card is over-committed. Devices of the original's
    plugin are on the card that the annotation names; the original did not look at their IDs.
    """
    pod = holding.pod
    spread = card_count_of(pod, resource, node_cards=len(table.cards)).cards
    containers = dict(holding.containers)
    before: set[str] = set()
    for container in pod.containers:
        units = containers.get(container.name, {})
        if len(units) > 1 and not _is_even(units, spread):
            card = _forced_card(pod, table, names, before)
            if card is not None:
                containers[container.name] = {card.uuid: sum(units.values())}
        before.add(container.name)
    for name, foreign_units in holding.foreign.items():
        card = _card_of_the_original(pod, table, names)
        if card is not None:
            units = containers.get(name, {})
            containers[name] = {**units, card.uuid: units.get(card.uuid, 0) + foreign_units}
    return replace(holding, containers=containers)


def withheld_units(
    listed: Iterable[ListedPod],
    pods: Iterable[Pod],
    table: CardTable,
    names: PodAnnotationNames,
    resource: str,
) -> Mapping[str, int]:
    """Return by card UUID how many units are used that the kubelet does not count there.

    They are those of pods that the original's plugin served, and of over-committed ones.
    """
    odd = [each for each in listed if any(map(_is_odd, each.containers))]
    found: Counter[str] = Counter()
    # Few nodes have any, and a call of the kubelet waits for this.
    for holding in keep_ledger(odd, pods, table).holdings.values() if odd else ():
        served = as_served(holding, table, names, resource)
        for uuid in served.cards:
            found[uuid] += max(0, served.units_of(uuid) - holding.units_of(uuid))
    return +found


def _is_odd(container: ContainerDevices) -> bool:
    """Say whether the IDs are of several cards, or of another plugin."""
    cards = {device_id.rpartition("-")[0] for device_id in container.device_ids}
    return len(cards) > 1 or any(map(is_foreign_id, container.device_ids[:1]))


def _forced_card(
    pod: Pod, table: CardTable, names: PodAnnotationNames, served: Collection[str]
) -> Card | None:
    choice = _readable_choice(pod, names, served)
    if choice is None or choice.ours:
        return None
    return table.of_index(choice.cards[0])


def _card_of_the_original(pod: Pod, table: CardTable, names: PodAnnotationNames) -> Card | None:
    if len(table.cards) == 1:
        # The original asks for no annotation then, and writes none.
        return table.cards[0]
    choice = _readable_choice(pod, names, ())
    return table.of_index(choice.cards[0]) if choice else None


def _readable_choice(pod: Pod, names: PodAnnotationNames, served: Collection[str]) -> Choice | None:
    try:
        return choice_of(pod, names, served=served)
    except RecordError:
        return None


def _is_even(units: Mapping[str, int], spread: int) -> bool:
    return len(units) == spread and len(set(units.values())) == 1


def is_served(holding: Holding, resource: str) -> bool:
    """Say whether every container that stays, and asks for units, holds them."""
    return all(
        container.name in holding.containers
        for container in holding.pod.containers
        if container.kind is not ContainerKind.INIT and container.requests.get(resource, 0) > 0
    )


def bookkeeping(
    holding: Holding,
    table: CardTable,
    names: PodAnnotationNames,
    *,
    resource: str,
    now_ns: int,
) -> dict[str, str]:
    """Return the annotations that the pod lacks or has otherwise; empty if all is so already."""
    if holding.foreign_units or not holding.containers:
        return {}
    pod = holding.pod
    wanted = {ALLOCATION: _compact(holding.containers)}
    by_number = _by_number(holding, table)
    if by_number:
        wanted[FRAMEWORK_ALLOCATION] = _compact(by_number)
    if is_served(holding, resource):
        # Not before: until then it is not known which cards the pod will have got.
        wanted |= _index_annotations(holding, table, names, resource)
        if pod.annotations.get(names.assigned) != "true":
            wanted |= {names.assigned: "true", names.assume_time: str(now_ns)}
    return {key: value for key, value in wanted.items() if pod.annotations.get(key) != value}


def _index_annotations(
    holding: Holding, table: CardTable, names: PodAnnotationNames, resource: str
) -> dict[str, str]:
    pod = holding.pod
    cards = [card for card in table.cards if card.uuid in holding.cards]
    marked = pod.annotations.get(MARK) == "1"
    # A list of cards is for our own extender: the original's parts read one number.
    may_write = bool(cards) if marked else len(cards) == 1 and _has_no_choice(pod, names)
    if not may_write:
        return {}
    values = {
        names.card_index: _indices(cards),
        names.pod_units: str(requested_units(pod, resource)),
        names.card_units: ",".join(str(card.units) for card in cards),
        names.node: pod.node_name,
    }
    by_container = _indices_by_container(holding, table, names)
    return {key: value for key, value in values.items() if key is not None} | by_container


def _indices_by_container(
    holding: Holding, table: CardTable, names: PodAnnotationNames
) -> dict[str, str]:
    """Return the cards of each main container that holds any, in the dialects that tell them."""
    if names.container_card_index is None:
        return {}
    found = {}
    for count, container in enumerate(_mains(holding.pod)):
        units = holding.containers.get(container.name, {})
        cards = [card for card in table.cards if card.uuid in units]
        if cards:
            found[names.container_card_index.format(count)] = _indices(cards)
    return found


def _indices(cards: Sequence[Card]) -> str:
    return ",".join(str(card.index) for card in cards)


def _has_no_choice(pod: Pod, names: PodAnnotationNames) -> bool:
    return not any(key in pod.annotations for key in _choice_keys(pod, names))


def _choice_keys(pod: Pod, names: PodAnnotationNames) -> list[str]:
    """Return all annotations by which an extender may have chosen cards for the pod."""
    keys = [names.card_index] if names.card_index else []
    if names.container_card_index:
        keys += [names.container_card_index.format(n) for n, _ in enumerate(_mains(pod))]
    return keys


def _by_number(holding: Holding, table: CardTable) -> dict[str, dict[str, int]]:
    """Return the holdings by the main containers' numbers and the cards' indices."""
    found = {}
    for count, container in enumerate(_mains(holding.pod)):
        units = holding.containers.get(container.name, {})
        by_index = {str(card.index): units[card.uuid] for card in table.cards if card.uuid in units}
        if by_index:
            found[str(count)] = by_index
    return found


def _mains(pod: Pod) -> list[Container]:
    return [each for each in pod.containers if each.kind is ContainerKind.MAIN]


def _card_index(pod: Pod, key: str, text: str) -> int:
    index = number(text.strip())
    if index is None:
        raise RecordError(
            f"pod {pod}, annotation {key}: found {shown(pod.annotations[key])}, expected a card"
            " index"
        )
    return index


def _compact(content: Mapping[str, Mapping[str, int]]) -> str:
    plain = {key: dict(value) for key, value in content.items()}
    return json.dumps(plain, separators=(",", ":"), sort_keys=True)
