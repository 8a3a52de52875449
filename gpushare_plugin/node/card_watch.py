"""What is seen of the cards, put through the health table into the inventory.

Rule 1: an event is of the MIG instance it names, else of its GPU; one that names
none is a reason to ask every card.
Rule 2: a card answers for itself: nothing seen of one changes another.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.health import (
    BadProbe,
    FatalXid,
    GoodProbe,
    Reaction,
    Seen,
    XidRule,
    after,
)
from gpushare_plugin.core.sharing import LeftOut
from gpushare_plugin.errors import GpuLost, NvmlError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.ports import GpuEvent, Probe, Reading

log = event_logger(__name__)


class CardWatch:
    """Judges what is seen of each card."""

    def __init__(
        self,
        inventory: Inventory,
        metrics: NodeMetrics,
        xids: XidRule,
        *,
        recovery_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._inventory = inventory
        self._metrics = metrics
        self._xids = xids
        self._recovery_seconds = recovery_seconds
        self._clock = clock
        self._uncorrected_ecc: dict[str, int] = {}

    async def look(self, reading: Reading, ask: Callable[[str], Awaitable[Probe]]) -> None:
        """Judge each card by what NVML shows, and ask those that it shows how they are."""
        for card in self._inventory.cards:
            absence = _absence(card, reading, self._inventory.left_out)
            if absence is None:
                await self._probe(card, ask)
            else:
                self._see(card, absence)

    def look_without_asking(self, reading: Reading, *, at_start: bool) -> None:
        """Judge only cards that were lost before the start: the others count as well."""
        for card in self._inventory.cards:
            absence = _absence(card, reading, self._inventory.left_out)
            if absence is None:
                self._see(card, GoodProbe(at_seconds=self._clock()))
            elif at_start:
                self._see(card, absence)

    def all_unreachable(self, reason: str) -> None:
        """Take it that no card can be asked: the driver itself does not answer."""
        for card in self._inventory.cards:
            self._see(card, BadProbe(reason=reason))

    def set_unwatched(self, gpu_uuids: frozenset[str]) -> None:
        """Take it that these GPUs tell no events; all others do."""
        for card in self._inventory.cards:
            health = self._inventory.health(card.uuid)
            watched = not gpu_uuids & _uuids(card)
            if health.watched and not watched:
                log.warning("card_unwatched", card=card.index, uuid=card.uuid, known_by="probes")
            self._inventory.set_health(card, replace(health, watched=watched))

    async def react(self, event: GpuEvent, ask: Callable[[str], Awaitable[Probe]]) -> None:
        """Do what the table says of an event."""
        cards = self._cards_of(event)
        reaction = Reaction.PROBE if event.xid is None else self._xids.reaction(event.xid)
        if event.uuid is None:
            # Which card it was, only the cards can tell.
            reaction = Reaction.PROBE
        if event.xid is not None:
            self._metrics.xids.labels(event.uuid or "", str(event.xid)).inc()
        if reaction is Reaction.COUNT:
            # A pod whose application is at fault may bring thousands.
            log.debug("xid_counted", xid=event.xid, uuid=event.uuid)
            return
        log.warning(
            "gpu_event",
            xid="none" if event.xid is None else event.xid,
            uuid=event.uuid or "unknown",
            cards=",".join(str(card.index) for card in cards) or "none",
            reaction=reaction.value,
        )
        for card in cards:
            if reaction is Reaction.RESET and event.xid is not None:
                self._see(card, FatalXid(xid=event.xid))
            elif reaction is Reaction.PROBE:
                await self._probe(card, ask)

    def _cards_of(self, event: GpuEvent) -> list[Card]:
        if event.uuid is None:
            return list(self._inventory.cards)
        of_gpu = [card for card in self._inventory.cards if event.uuid in _uuids(card)]
        instances = [
            card
            for card in of_gpu
            if card.gpu.mig is not None
            and card.gpu.mig.gpu_instance_id == event.gpu_instance_id
            and event.compute_instance_id in (None, card.gpu.mig.compute_instance_id)
        ]
        return instances or of_gpu

    async def _probe(self, card: Card, ask: Callable[[str], Awaitable[Probe]]) -> None:
        try:
            count = (await ask(card.uuid)).uncorrected_ecc
        except GpuLost as error:
            self._see(card, BadProbe(reason=str(error), lost=True))
            return
        except NvmlError as error:
            self._see(card, BadProbe(reason=str(error)))
            return
        before = self._uncorrected_ecc.get(card.uuid)
        if count is not None:
            self._uncorrected_ecc[card.uuid] = count
        if count is not None and before is not None and count > before:
            grown = f"uncorrected ECC errors grew from {before} to {count}"
            self._see(card, BadProbe(reason=grown))
        else:
            self._see(card, GoodProbe(at_seconds=self._clock()))

    def _see(self, card: Card, seen: Seen) -> None:
        health = self._inventory.health(card.uuid)
        self._inventory.set_health(
            card, after(health, seen, recovery_seconds=self._recovery_seconds)
        )


def _uuids(card: Card) -> frozenset[str]:
    """Return the UUIDs that an event of this card may name: its own, and its GPU's."""
    parent = {card.gpu.mig.parent_uuid} if card.gpu.mig else set()
    return frozenset({card.uuid, *parent})


def _absence(card: Card, reading: Reading, left_out: Sequence[LeftOut]) -> BadProbe | None:
    """Return why a card is not among those that can be shared; None if it is.

    It is lost only by NVML's own word: a card that fails to answer once has had no reset.
    """
    shown = any(gpu.uuid == card.uuid for gpu in reading.gpus)
    names = {card.uuid} if shown else _uuids(card)
    for each in left_out:
        if each.name in names:
            return BadProbe(reason=each.reason, lost=each.lost)
    if shown:
        return None
    if any(each.may_be_any for each in left_out):
        return BadProbe(reason="NVML does not tell which card fails to answer")
    return BadProbe(reason="lost: NVML does not show it", lost=True)
