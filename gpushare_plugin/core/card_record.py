"""The cards as an earlier start wrote them down: what keeps their index, units and IDs.

It is written twice: as the node's annotation `gpushare.io/gpus` (`node_record`), and as
a copy in a file on the node, which is there when the API server is not:

    {"v":1,"node":"gpu-a","unit_mib":1024,"gpus":[{"index":0,"uuid":"GPU-...",
     "model":"Tesla T4","units":15,"total_bytes":16106127360,"reserved_bytes":0}]}

Rule 1: read strictly: a record that does not parse is an error that names the field,
never "no cards".
Rule 2: a card keeps the tag of its device IDs. Version 1 means the tag that the UUID
alone gives; any other stands in the record.
Rule 3: the copy names its node: on a disk that was cloned it is another node's, and
an error.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpushare_plugin.core.devices import Card, MigInstance, own_tag
from gpushare_plugin.core.dialect import check_resource_name
from gpushare_plugin.core.units import CardMemory
from gpushare_plugin.errors import ConfigError, RecordError

VERSION = 1

_TAG = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCard:
    """One card as the record knows it."""

    index: int
    uuid: str
    tag: str
    units: int
    model: str
    numa_node: int | None = None
    memory: CardMemory | None = None
    """None in the annotation, which leaves it out."""
    mig: MigInstance | None = None
    """None in the annotation, whatever the card is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What an earlier start, or another part of the product, wrote of this node."""

    unit_mib: int
    cards: tuple[RecordedCard, ...]
    """By index, which begins at 0 and has no gaps."""
    links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """NVLink lanes by the indices of two cards, the lower first; pairs without are not here."""
    resource: str | None = None
    """The name that the units were served under; None in the copy, whose file's name says it."""


def card_fields(card: Card) -> dict[str, object]:
    """Return what the annotation says of a card."""
    fields: dict[str, object] = {
        "index": card.index,
        "uuid": card.uuid,
        "model": card.gpu.model,
        "units": card.units,
    }
    if card.gpu.numa_node is not None:
        fields["numa"] = card.gpu.numa_node
    if card.tag != own_tag(card.uuid):
        fields["tag"] = card.tag
    return fields


def local_record(cards: Sequence[Card], *, unit_mib: int, node_name: str) -> str:
    """Return the text of the copy on the node."""
    gpus = [{**card_fields(card), **_left_out_of_the_annotation(card)} for card in cards]
    return compact({"v": VERSION, "node": node_name, "unit_mib": unit_mib, "gpus": gpus})


def parse_record(text: str, *, name: str, node_name: str | None = None) -> Record:
    """Return what an annotation or a file says.

    Args:
        text: its content.
        name: what it is called in an error.
        node_name: whose record it must be; None where it is not said.

    Raises:
        RecordError: it does not parse, is of a version that is not ours, or another node's.
    """
    try:
        content = json.loads(text)
        if content["v"] != VERSION:
            raise RecordError(f"{name}: found version {content['v']!r}, expected {VERSION}")
        if node_name is not None and content["node"] != node_name:
            raise RecordError(
                f"{name}: found the record of node {content['node']!r}, expected that of"
                f" {node_name!r}; a disk that was cloned brings another node's"
            )
        cards = sorted((_recorded(gpu) for gpu in content["gpus"]), key=lambda card: card.index)
        _check_each_is_itself(cards)
        links = dict(_link(each, cards=len(cards)) for each in content.get("links", ()))
        return Record(
            unit_mib=_whole(content["unit_mib"]),
            cards=tuple(cards),
            links=links,
            resource=_resource(content["resource"]) if "resource" in content else None,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(
            f"{name}: found {text[:120]!r}, which does not parse: {error!r}"
        ) from error


def compact(content: object) -> str:
    """Return JSON without a space."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _left_out_of_the_annotation(card: Card) -> dict[str, object]:
    memory, mig = card.gpu.memory, card.gpu.mig
    fields: dict[str, object] = {
        "total_bytes": memory.total_bytes,
        "reserved_bytes": memory.reserved_bytes,
    }
    if mig is not None:
        place = {"gi": mig.gpu_instance_id, "ci": mig.compute_instance_id}
        fields["mig"] = {"gpu": mig.parent_uuid, **place}
    return fields


def _recorded(gpu: Mapping[str, object]) -> RecordedCard:
    uuid = _text(gpu["uuid"])
    return RecordedCard(
        index=_whole(gpu["index"]),
        uuid=uuid,
        tag=_tag(gpu["tag"]) if "tag" in gpu else own_tag(uuid),
        units=_whole(gpu["units"]),
        model=_text(gpu["model"]),
        numa_node=_whole(gpu["numa"]) if "numa" in gpu else None,
        memory=_memory(gpu) if "total_bytes" in gpu else None,
        mig=_mig(gpu["mig"]) if "mig" in gpu else None,
    )


def _memory(gpu: Mapping[str, object]) -> CardMemory:
    total, reserved = _whole(gpu["total_bytes"]), _whole(gpu["reserved_bytes"])
    return CardMemory(total_bytes=total, reserved_bytes=reserved)


def _mig(place: object) -> MigInstance:
    if not isinstance(place, dict):
        raise TypeError(f"found {place!r}, expected a MIG instance's place")
    return MigInstance(
        parent_uuid=_text(place["gpu"]),
        gpu_instance_id=_whole(place["gi"]),
        compute_instance_id=_whole(place["ci"]),
    )


def _link(link: Sequence[object], *, cards: int) -> tuple[tuple[int, int], int]:
    first, second, lanes = (_whole(each) for each in link)
    if first == second or max(first, second) >= cards:
        raise ValueError(f"found a link of cards {first} and {second}, expected two of {cards}")
    return (min(first, second), max(first, second)), lanes


def _check_each_is_itself(cards: Sequence[RecordedCard]) -> None:
    indexes = [card.index for card in cards]
    if indexes != list(range(len(cards))):
        raise ValueError(f"found the indexes {indexes}, expected them from 0 without gaps")
    for what in ({card.uuid for card in cards}, {card.tag for card in cards}):
        if len(what) != len(cards):
            raise ValueError(f"found {len(what)} UUIDs or tags of {len(cards)} cards")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"found {value!r}, expected a text")
    return value


def _resource(value: object) -> str:
    try:
        return check_resource_name(_text(value))
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _tag(value: object) -> str:
    text = _text(value)
    if _TAG.fullmatch(text) is None:
        raise ValueError(f"found tag {text!r}, expected eight hex digits")
    return text


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"found {value!r}, expected a whole number")
    return value
