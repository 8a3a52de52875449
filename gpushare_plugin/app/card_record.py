"""The card record: where it comes from at the start, what it decides, and its copy on the node.

Rule 1: the copy in the plugin folder is written first, so it is the newer one and wins over
the node's annotation; with it, a start waits for no API server.
Rule 2: a copy that is missing, unreadable or another node's is none: the annotation then
gives the record, if the node object comes in time.
"""

from gpushare_plugin.adapters.record_file import RecordFile
from gpushare_plugin.app.earlier_names import EarlierNames
from gpushare_plugin.app.serving import NodeParts
from gpushare_plugin.config import NodeConfig
from gpushare_plugin.core.card_record import Record, local_record, parse_record
from gpushare_plugin.core.node_record import GPUS, parse_gpus
from gpushare_plugin.core.units import unit_text
from gpushare_plugin.errors import RecordError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.node.card_record import CardRecordKeeper
from gpushare_plugin.node.held_units import HeldUnits
from gpushare_plugin.ports import PodResources, Reading
from gpushare_plugin.ports.cluster import Node

log = event_logger(__name__)

FORGET_SECONDS = 3.0
"""How long a start waits for the kubelet to say whether cards may be forgotten."""


class CardRecord:
    """What earlier starts knew of this node's cards."""

    def __init__(self, config: NodeConfig, parts: NodeParts, pod_resources: PodResources) -> None:
        self._config = config
        self._inventory = parts.inventory
        self._ever_registered = parts.ever_registered
        resource = config.names.memory_resource
        self._file = RecordFile(config.plugin_dir, resource)
        self._keeper = CardRecordKeeper(self._file, parts.inventory, parts.metrics, self._text)
        self._held = HeldUnits(pod_resources, resource, forget_seconds=FORGET_SECONDS)
        self._names = EarlierNames(config.plugin_dir, resource, self._held)
        self._record = self._read()
        self.is_on_node = self._record is not None
        """Whether the copy on this node gave the record, and nobody else is to be waited for."""

    @property
    def problem(self) -> str | None:
        """Why nothing is served yet; None if nothing here is in the way."""
        return self._held.problem or self._names.problem

    def take_node(self, node: Node) -> None:
        """Take what the node object says, if nothing is known yet."""
        if self._record is not None or GPUS not in node.annotations:
            return
        try:
            self._record = parse_gpus(node.annotations[GPUS])
        except RecordError as error:
            log.warning("node_record_unreadable", node=node, error=error)
            return
        if self._inventory.cards and not self._is_as_decided(self._record):
            log.error(
                "node_record_late",
                node=node,
                resource=self._record.resource,
                unit=unit_text(self._record.unit_mib),
                cards=",".join(card.uuid for card in self._record.cards),
                doing="going on with what was decided without it; drain the node",
            )

    def _is_as_decided(self, record: Record) -> bool:
        decided = {card.uuid: card.index for card in self._inventory.cards}
        indexes = {card.uuid: card.index for card in record.cards}
        same_unit = record.unit_mib == self._config.memory_unit
        same_name = record.resource in (None, self._config.names.memory_resource)
        return same_unit and same_name and indexes.items() <= decided.items()

    async def recall(self, reading: Reading) -> None:
        """Have the inventory know what is recorded, less the cards that are to be forgotten."""
        record, rule = self._record, self._config.sharing
        if record is not None and self._config.forget_cards:
            record = await self._held.forget(record, self._config.forget_cards, reading.gpus, rule)
        self._inventory.remember(record)

    async def check_held(self) -> None:
        """Return once it is sure that name and unit are those that pods here hold.

        Raises:
            ConfigError: one is another.
        """
        await self._names.settle(self._record.resource if self._record else None)
        await self._held.refuse_another_unit(self._record, unit_mib=self._config.memory_unit)

    async def keep(self) -> None:
        """Keep the copy true until cancelled."""
        # Only who serves may write it: a second instance waits, and may have other settings.
        await self._ever_registered.wait()
        await self._names.give_up()
        await self._keeper.run()

    def close(self) -> None:
        """Let others serve under the names of before."""
        self._names.close()

    def _read(self) -> Record | None:
        try:
            text = self._file.read()
            if text is None:
                return None
            record = parse_record(text, name=str(self._file), node_name=self._node_name)
        except RecordError as error:
            log.warning("card_record_unreadable", error=error, doing="going on as without it")
            return None
        self._keeper.take_as_written(text)
        return record

    @property
    def _node_name(self) -> str:
        return self._config.node_name or ""

    def _text(self) -> str:
        return local_record(
            self._inventory.cards, unit_mib=self._config.memory_unit, node_name=self._node_name
        )
