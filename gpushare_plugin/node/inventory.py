"""The cards of the node and their health, now; and who is told of a change.

Rule 1: one owner, the event loop: nothing here is locked, everything is replaced.
Rule 2: who listens compares revisions, so a change is never missed and several at
once are one message.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpushare_plugin.core.card_record import Record
from gpushare_plugin.core.devices import Card, CardTable
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.recall import recall
from gpushare_plugin.core.sharing import LeftOut, SharingRule, cards_with_many_units, share
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.ports import Reading

log = event_logger(__name__)

HEALTHY = CardHealth()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cards and their health at one revision."""

    revision: int
    cards: tuple[tuple[Card, State], ...]

    @property
    def healthy_units(self) -> int:
        """The units that can be given out."""
        return sum(card.units for card, state in self.cards if state is State.HEALTHY)


class Inventory:
    """The current cards and their health."""

    def __init__(self, rule: SharingRule, metrics: NodeMetrics) -> None:
        self._rule = rule
        self._metrics = metrics
        self._health: dict[str, CardHealth] = {}
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[Card, CardHealth], None]] = []
        self._record: Record | None = None
        self.table = CardTable()
        self.left_out: tuple[LeftOut, ...] = ()
        self.revision = 0

    @property
    def cards(self) -> tuple[Card, ...]:
        """The shared cards, by index."""
        return self.table.cards

    def on_health(self, listener: Callable[[Card, CardHealth], None]) -> None:
        """Call this at each change of a card's state."""
        self._listeners.append(listener)

    def snapshot(self) -> Snapshot:
        """Return the cards with what the kubelet is to be told of each."""
        cards = tuple((card, self.health(card.uuid).state) for card in self.cards)
        return Snapshot(revision=self.revision, cards=cards)

    def health(self, uuid: str) -> CardHealth:
        """Return the health of a card; one that was never asked is healthy."""
        return self._health.get(uuid, HEALTHY)

    async def changed_since(self, revision: int) -> Snapshot:
        """Wait until the cards or their health differ from those of `revision`."""
        while self.revision == revision:
            await self._changed.wait()
        return self.snapshot()

    def take_reading(self, reading: Reading) -> None:
        """Bring the cards in line with what NVML shows now.

        Raises:
            UnitError: the first list would be larger than the kubelet takes.
        """
        known = self.cards
        if not known and self._record is not None:
            known = recall(self._record, reading.gpus, self._rule)
        sharing = share(reading.gpus, self._rule, known=known)
        # Topmost first: what a GPU is left out for is logged once, when it is new or differs.
        left_out = (*reading.left_out, *sharing.left_out)
        for each in left_out:
            if each not in self.left_out:
                log.warning("gpu_left_out", gpu=each.name, reason=each.reason)
        self.left_out = left_out
        self._take_cards(sharing.cards)

    def remember(self, record: Record | None) -> None:
        """Take what an earlier start knew of the cards; before the first reading."""
        self._record = record

    def _take_cards(self, cards: Sequence[Card]) -> None:
        new = [card for card in cards if self.table.of_uuid(card.uuid) is None]
        self.table = CardTable(cards)
        for card in new:
            log.info(
                "card_shared",
                card=card.index,
                uuid=card.uuid,
                model=card.gpu.model,
                units=card.units,
                device_prefix=card.tag,
            )
        for card in cards_with_many_units(new):
            log.warning(
                "many_units",
                card=card.index,
                units=card.units,
                advice="each unit of a container is written into its pod's status; use a larger"
                " --memory-unit",
            )
        if new:
            self._bump()

    def set_health(self, card: Card, health: CardHealth) -> None:
        """Take a card's health; a change of its state is one log line, metric and message."""
        before = self.health(card.uuid)
        self._health[card.uuid] = health
        if before.state is health.state:
            return
        self._metrics.health_changes.labels(card.uuid, health.state.value).inc()
        if health.state is State.UNHEALTHY:
            log.error("card_unhealthy", card=card.index, uuid=card.uuid, reason=health.reason)
        else:
            log.info("card_healthy", card=card.index, uuid=card.uuid, was=before.reason)
        for listener in self._listeners:
            listener(card, health)
        self._bump()

    def _bump(self) -> None:
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()
