"""GPUs, cards, and the device IDs that stand for a card's units.

A *GPU* is what NVML shows. A *card* is a GPU (or a MIG instance) that we share:
it has an index, units and a tag. A *device* is one unit of one card; its ID is
`<tag>-<n>`, the tag being the first eight hex digits of the card's UUID.

Rule 1: IDs depend on the UUID alone: the same after a restart, a reboot, a
re-ordering of cards. Where a tag does not (two cards would clash), the record keeps it.
Rule 2: parsing is strict; what is not ours is never guessed at.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from gpushare_plugin.core.units import CardMemory
from gpushare_plugin.errors import DeviceIdError

_GPU_UUID = re.compile(r"GPU-(?P<tag>[0-9a-f]{8})(-[0-9a-f]+)+")
_DEVICE_ID = re.compile(r"(?P<tag>[0-9a-f]{8})-(?P<ordinal>0|[1-9][0-9]{0,6})")
_FOREIGN_ID = re.compile(r"(?P<uuid>.+)-_-(?P<ordinal>[0-9]+)")

MIB_OF_ONE_MESSAGE = 4
MESSAGE_LIMIT_BYTES = MIB_OF_ONE_MESSAGE << 20
"""What the kubelet's client receives at most (gRPC's default, which it never raises)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """Where a MIG instance lies: its GPU and the IDs by which NVML's events name it."""

    parent_uuid: str
    gpu_instance_id: int
    compute_instance_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What NVML tells of one GPU or MIG instance; None is what it cannot tell."""

    uuid: str
    nvml_index: int
    """NVML's index of the GPU (of the parent, for a MIG instance); not stable over reboots."""
    minor_number: int | None
    """The n of /dev/nvidia<n>; not the NVML index."""
    model: str
    pci_address: str
    numa_node: int | None
    memory: CardMemory
    mig: MigInstance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU or MIG instance that is shared."""

    index: int
    """The rank among the shared cards of the node, from 0 without gaps."""
    tag: str
    """The eight hex digits that its device IDs begin with; unique on the node."""
    units: int
    gpu: Gpu

    @property
    def uuid(self) -> str:
        """The UUID of the GPU or MIG instance."""
        return self.gpu.uuid

    def device_ids(self) -> list[str]:
        """Return the IDs of all units, in order."""
        return [f"{self.tag}-{ordinal}" for ordinal in range(self.units)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceId:
    """One unit of one card, as its ID says."""

    tag: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.tag}-{self.ordinal}"


def parse_device_id(text: str) -> DeviceId:
    """Return what the ID says.

    Raises:
        DeviceIdError: it is the original gpushare's, or no device ID at all.
    """
    match = _DEVICE_ID.fullmatch(text)
    if match is not None:
        return DeviceId(tag=match["tag"], ordinal=int(match["ordinal"]))
    if is_foreign_id(text):
        raise DeviceIdError(
            f"device ID {text!r} is of the original gpushare's plugin, which served this node"
            " before; the pod must be made anew to get a unit of ours"
        )
    raise DeviceIdError(
        f"device ID {text[:80]!r}: expected eight hex digits, a dash and a number, such as"
        " 6f0c3a52-3"
    )


def is_foreign_id(text: str) -> bool:
    """Say whether the ID is in the original gpushare's format, `<GPU UUID>-_-<n>`."""
    return _FOREIGN_ID.fullmatch(text) is not None


def named_card(text: str) -> str | None:
    """Return by what an ID names its card: a tag of ours, or the original's UUID; else None."""
    if (ours := _DEVICE_ID.fullmatch(text)) is not None:
        return ours["tag"]
    foreign = _FOREIGN_ID.fullmatch(text)
    return foreign["uuid"] if foreign else None


def card_tags(uuids: Iterable[str]) -> dict[str, str]:
    """Return a tag for each UUID, unique among them.

    The UUID's own first eight digits; a hash of all of it for what is not a GPU's UUID
    (MIG instances) and wherever two would be alike.
    """
    wanted = {uuid: own_tag(uuid) for uuid in sorted(set(uuids))}
    count = Counter(wanted.values())
    tags = {uuid: tag for uuid, tag in wanted.items() if count[tag] == 1}
    for uuid in wanted:
        salt = 0
        while uuid not in tags:
            tag = _hashed_tag(f"{uuid}#{salt}" if salt else uuid)
            if tag not in tags.values():
                tags[uuid] = tag
            salt += 1
    return tags


def own_tag(uuid: str) -> str:
    """Return the tag that a UUID has where no other card's is alike."""
    match = _GPU_UUID.fullmatch(uuid.lower().replace("gpu-", "GPU-", 1))
    return match["tag"] if match else _hashed_tag(uuid)


def _hashed_tag(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


class CardTable:
    """The cards of the node, found by tag, UUID or device ID. Does not change."""

    __slots__ = ("_by_tag", "_by_uuid", "cards")

    def __init__(self, cards: Iterable[Card] = ()) -> None:
        self.cards: tuple[Card, ...] = tuple(cards)
        self._by_tag: Mapping[str, Card] = {card.tag: card for card in self.cards}
        self._by_uuid: Mapping[str, Card] = {card.uuid: card for card in self.cards}

    def of_uuid(self, uuid: str) -> Card | None:
        """Return the card with that UUID, if it is shared."""
        return self._by_uuid.get(uuid)

    def of_index(self, index: int) -> Card | None:
        """Return the card with that index, if it is shared."""
        return next((card for card in self.cards if card.index == index), None)

    def of_device(self, text: str) -> Card:
        """Return the card that a device ID stands for.

        Raises:
            DeviceIdError: the ID is not ours, or of no card or unit of this node.
        """
        device = parse_device_id(text)
        card = self._by_tag.get(device.tag)
        if card is None:
            raise DeviceIdError(
                f"device ID {text!r} is of no card of this node; its cards are {self._names()}"
            )
        if device.ordinal >= card.units:
            raise DeviceIdError(
                f"device ID {text!r}: card {card.index} has {card.units} units, 0 to"
                f" {card.units - 1}"
            )
        return card

    def group(self, device_ids: Iterable[str]) -> dict[Card, list[str]]:
        """Return the device IDs of each card, in order of card index.

        Raises:
            DeviceIdError: as `of_device`.
        """
        found: dict[str, list[str]] = {}
        for device_id in device_ids:
            found.setdefault(self.of_device(device_id).tag, []).append(device_id)
        return {card: found[card.tag] for card in self.cards if card.tag in found}

    def _names(self) -> str:
        return ", ".join(card.tag for card in self.cards) or "none yet"


def worst_case_message_bytes(units_by_card: Sequence[int], *, with_numa: bool) -> int:
    """Return the size of a ListAndWatch message with every device Unhealthy.

    A device takes its ID, 15 bytes, and 6 more with a NUMA node (measured against the
    kubelet; `protos/deviceplugin_v1beta1.proto` has the fields).
    """
    overhead = 15 + (6 if with_numa else 0)
    total = 0
    for units in units_by_card:
        total += units * (len("6f0c3a52-") + overhead)
        total += sum(max(0, units - first) for first in (0, *(10**digit for digit in range(1, 8))))
    return total
