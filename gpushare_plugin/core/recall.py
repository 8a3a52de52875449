"""The recorded cards, as a new start takes them up: there, lost, or to be forgotten.

Rule 1: every recorded card is a card again, with its index and its tag, whether NVML
shows it or not. New cards come behind them (`sharing`).
Rule 2: a card that is there has the units that the settings give it now; a lost one
keeps its units for as long as the unit is the same.
Rule 3: a card goes for good only when the operator names it, it cannot be shared, and
no pod holds units of it, nor of a card whose index would change with it.
"""

from collections.abc import Collection, Iterable, Sequence

from gpushare_plugin.core.association import ListedPod, PodName
from gpushare_plugin.core.card_record import Record, RecordedCard
from gpushare_plugin.core.devices import Card, Gpu, named_card
from gpushare_plugin.core.sharing import SharingRule, check_message, obstacle
from gpushare_plugin.core.units import BYTES_PER_MIB, CardMemory, uniform_units

NOT_SHOWN = -1
"""In place of an NVML index; nothing is given out of a card that is not shown."""


def recall(record: Record, gpus: Sequence[Gpu], rule: SharingRule) -> tuple[Card, ...]:
    """Return the recorded cards by index.

    Raises:
        UnitError: their device list would be larger than the kubelet takes.
    """
    shown = {gpu.uuid: gpu for gpu in gpus}
    units = [_units(each, shown.get(each.uuid), record, rule) for each in record.cards]
    if rule.uniform:
        units = [uniform_units(units)] * len(units)
    cards = tuple(
        # One that holds no unit now has a device all the same, for which it is Unhealthy.
        Card(index=index, tag=each.tag, units=max(1, units[index]), gpu=_gpu(each, shown, record))
        for index, each in enumerate(record.cards)
    )
    check_message(cards, rule)
    return cards


def forgettable(
    record: Record, named: Collection[str], gpus: Iterable[Gpu], rule: SharingRule
) -> tuple[RecordedCard, ...]:
    """Return the named cards that are not there to be shared."""
    there = {gpu.uuid for gpu in gpus if obstacle(gpu, rule) is None}
    return tuple(card for card in record.cards if card.uuid in named and card.uuid not in there)


def without(record: Record, gone: Collection[RecordedCard]) -> Record:
    """Return the record without some cards; those behind them move up."""
    left = tuple(card for card in record.cards if card not in gone)
    return Record(unit_mib=record.unit_mib, cards=left, resource=record.resource)


def held_by(
    pods: Iterable[ListedPod], record: Record, gone: Collection[RecordedCard]
) -> tuple[PodName, ...]:
    """Return the pods that hold units of a card which goes, or whose index changes then."""
    first = min(card.index for card in gone)
    touched = [card for card in record.cards if card.index >= first]
    names = {name for card in touched for name in (card.tag, card.uuid)}
    return tuple(
        pod.pod
        for pod in pods
        if any(named_card(each) in names for held in pod.containers for each in held.device_ids)
    )


def _units(card: RecordedCard, gpu: Gpu | None, record: Record, rule: SharingRule) -> int:
    if gpu is not None:
        return rule.units.units(gpu.memory)
    if record.unit_mib == rule.units.unit_mib:
        return card.units
    return rule.units.units(_memory(card, record))


def _memory(card: RecordedCard, record: Record) -> CardMemory:
    at_least = CardMemory(total_bytes=card.units * record.unit_mib * BYTES_PER_MIB)
    return card.memory or at_least


def _gpu(card: RecordedCard, shown: dict[str, Gpu], record: Record) -> Gpu:
    return shown.get(card.uuid) or Gpu(
        uuid=card.uuid,
        nvml_index=NOT_SHOWN,
        minor_number=None,
        model=card.model,
        pci_address="",
        numa_node=card.numa_node,
        memory=_memory(card, record),
        mig=card.mig,
    )
