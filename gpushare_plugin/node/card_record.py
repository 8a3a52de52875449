"""The copy of the card record on this node, kept true for as long as we serve.

Rule 1: written on change, and anew when it is gone: kubelets of old empty the folder.
Rule 2: a disk that takes nothing stops nobody: it is said once, counted, and tried again.
Rule 3: written in a thread that nobody waits for; it is not on the way to the kubelet.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from gpushare_plugin.errors import RecordError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.worker import in_thread
from gpushare_plugin.ports import RecordFile

log = event_logger(__name__)

TICK_SECONDS = 5.0
"""How often it is looked whether the file is still there."""


class CardRecordKeeper:
    """Writes the record."""

    def __init__(
        self,
        file: RecordFile,
        inventory: Inventory,
        metrics: NodeMetrics,
        text: Callable[[], str],
        *,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        """`text` returns the record as the cards are now."""
        self._file = file
        self._inventory = inventory
        self._metrics = metrics
        self._text = text
        self._tick_seconds = tick_seconds
        self._written: str | None = None
        self._said: str | None = None

    def take_as_written(self, text: str) -> None:
        """Take it that the file says so."""
        self._written = text

    async def run(self) -> None:
        """Write what differs, at each change, until cancelled."""
        back_off = BackOff()
        while True:
            revision = self._inventory.revision
            if await self._keep():
                back_off.reset()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._tick_seconds):
                        await self._inventory.changed_since(revision)
            else:
                await asyncio.sleep(back_off.next_seconds())

    async def _keep(self) -> bool:
        """Write if something differs; say whether all is as it should be."""
        text = self._text()
        if text == self._written and self._file.is_kept():
            return True
        try:
            await in_thread("write the card record", self._file.write, text)
        except RecordError as error:
            self._metrics.card_record_failures.inc()
            if str(error) != self._said:
                log.warning("card_record_not_written", error=error, doing="trying again")
            self._said = str(error)
            return False
        self._written, self._said = text, None
        log.info("card_record_written", path=self._file, cards=len(self._inventory.cards))
        return True
