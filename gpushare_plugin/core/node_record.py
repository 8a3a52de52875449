"""The node's own record: the annotations and labels by which the cluster knows its cards.

    gpushare.io/gpus    {"v":1,"resource":"aliyun.com/gpu-mem","unit_mib":1024,...,"gpus":[...]}
    gpushare.io/health  {"GPU-...":{"state":"unhealthy","reason":"XID 79"}}

Rule 1: written on change only, compact, at most 64 KiB, with no per-pod data.
Rule 2: the cards are written and read as in `card_record`, strictly.
Rule 3: what is taken off again is ours: our keys, and resources that no plugin serves.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpushare_plugin.core.card_record import VERSION, Record, card_fields, compact, parse_record
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.quantity import parse_quantity
from gpushare_plugin.core.units import MIB_PER_GIB, unit_text
from gpushare_plugin.errors import RecordError

GPUS = "gpushare.io/gpus"
HEALTH = "gpushare.io/health"
LABELS = ("model", "memory-gib", "count", "unit", "isolation")
LABEL_PREFIX = "gpushare.io/"
"""Of every label of a node that is ours, and of every annotation."""
LONGEST_BYTES = 64 << 10
LONGEST_LABEL = 63
MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLink:
    """Two cards that NVLink joins, by index, and over how many lanes."""

    cards: tuple[int, int]
    nvlinks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObject:
    """What a node object says, as far as we put something there."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    ready: bool
    """Whether its kubelet tells how it is; else what it said last stands there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What goes from a node when the product does."""

    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    resources: tuple[str, ...]
    served: tuple[str, ...]
    """Resources that stay: a plugin serves them, and the kubelet would put them back."""

    @property
    def is_nothing(self) -> bool:
        """Whether nothing goes."""
        return not (self.annotations or self.labels or self.resources)


def removal(node: NodeObject, resources: Sequence[str], counts: Sequence[str]) -> Removal:
    """Return what of a node is ours; `counts` are the resources that count its cards.

    A resource is ours on a node with one of our keys, and anywhere once it has come to
    0: that is what the kubelet leaves of a plugin that has gone.

    Raises:
        QuantityError: the node's own numbers do not parse.
    """
    annotations = tuple(sorted(key for key in node.annotations if key.startswith(LABEL_PREFIX)))
    marks = tuple(sorted(key for key in node.labels if key.startswith(LABEL_PREFIX)))
    served = [each for each in resources if node.ready and _units(node.allocatable, each) > 0]
    idle = [each for each in resources if _stands(each, node) and each not in served]
    marked = bool(annotations or marks)
    gone = [each for each in idle if marked or _units(node.capacity, each) == 0]
    # A plugin that still serves needs the count, and writes it only once.
    if not served and (marked or gone):
        gone += [each for each in counts if _stands(each, node)]
    return Removal(
        annotations=annotations, labels=marks, resources=tuple(gone), served=tuple(served)
    )


def gpus_annotation(
    cards: Sequence[Card],
    *,
    resource: str,
    unit_mib: int,
    isolation: str,
    links: Sequence[CardLink] = (),
) -> str:
    """Return the value of `gpushare.io/gpus`.

    Raises:
        RecordError: it would be longer than an annotation of ours may be.
    """
    content: dict[str, object] = {
        "v": VERSION,
        "resource": resource,
        "unit_mib": unit_mib,
        "isolation": isolation,
        "gpus": [card_fields(card) for card in cards],
    }
    if links:
        content["links"] = [[*link.cards, link.nvlinks] for link in links]
    text = compact(content)
    if len(text.encode()) > LONGEST_BYTES:
        raise RecordError(
            f"{GPUS}: {len(cards)} cards make {len(text.encode())} bytes, expected at most"
            f" {LONGEST_BYTES}"
        )
    return text


def health_annotation(health: Mapping[str, CardHealth]) -> str:
    """Return the value of `gpushare.io/health`: only what is not healthy."""
    return compact(
        {
            uuid: {"state": "unhealthy", "reason": each.reason}
            for uuid, each in sorted(health.items())
            if each.state is State.UNHEALTHY
        }
    )


def parse_health(text: str) -> Mapping[str, str]:
    """Return the unhealthy cards' UUIDs, each with the reason.

    Raises:
        RecordError: it does not parse.
    """
    try:
        found = {uuid: str(each["reason"]) for uuid, each in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(
            f"{HEALTH}: found {text[:120]!r}, which does not parse: {error!r}"
        ) from error
    return found


def parse_gpus(text: str) -> Record:
    """Return what the annotation says.

    Raises:
        RecordError: it does not parse, or is of a version that is not ours.
    """
    return parse_record(text, name=GPUS)


def labels(cards: Sequence[Card], *, unit_mib: int, isolation: str) -> dict[str, str]:
    """Return the node labels, for node affinity; `mixed` where the cards differ."""
    values = {
        "model": _same(card.gpu.model for card in cards),
        "memory-gib": _same(
            str(card.gpu.memory.total_bytes // (MIB_PER_GIB << 20)) for card in cards
        ),
        "count": str(len(cards)),
        "unit": unit_text(unit_mib),
        "isolation": isolation,
    }
    return {f"{LABEL_PREFIX}{key}": label_value(value) for key, value in values.items()}


def label_value(text: str) -> str:
    """Return the text cleaned to what a label's value may be."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LONGEST_LABEL]
    return cleaned.strip("-_.")


def _stands(resource: str, node: NodeObject) -> bool:
    return resource in node.capacity or resource in node.allocatable


def _units(amounts: Mapping[str, str], resource: str) -> int:
    return parse_quantity(amounts.get(resource, "0"))


def _same(values: Iterable[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else MIXED
