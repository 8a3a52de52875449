"""The node's own record, written on the node object: cards, health, labels, card count.

Rule 1: state is compared with the node object that the watch holds, so a node that
was made anew, or whose record somebody changed, is written again.
Rule 2: bad news goes to the annotation first, then to the kubelet; good news the
other way round. Whoever places pods is thus never told of more than there is.
Rule 3: the card count is written only once the node has memory units: an extender of
the original kind takes a card without units for one of size 0, for ever.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.node_record import (
    GPUS,
    HEALTH,
    CardLink,
    gpus_annotation,
    health_annotation,
    labels,
)
from gpushare_plugin.core.quantity import parse_quantity
from gpushare_plugin.errors import ApiError, ApiNotFound, QuantityError, RecordError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports.cluster import ClusterWriter, Node, StatusPatch

log = event_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecordRule:
    """What is the same for all records of this node."""

    names: Dialect
    unit_mib: int


class NodePublisher:
    """Keeps the node object true."""

    def __init__(
        self,
        inventory: Inventory,
        rule: NodeRecordRule,
        metrics: NodeMetrics,
        isolation: Callable[[], str | None],
        links: Callable[[], tuple[CardLink, ...]],
    ) -> None:
        self._inventory = inventory
        self._rule = rule
        self._metrics = metrics
        self._isolation = isolation
        self._links = links
        self._node: Node | None = None
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._said: str | None = None

    def put(self, node: Node) -> None:
        """Take the node object as it is now."""
        self._node = node
        self._wake.set()

    def wake(self) -> None:
        """Compare again: something has changed."""
        self._written.clear()
        self._wake.set()

    async def written(self, *, timeout_seconds: float) -> None:
        """Return once the record is as the cards are, or after the time-out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._written.wait()

    async def run(self, writer: ClusterWriter) -> None:
        """Write what differs, at each change, until cancelled."""
        back_off = BackOff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self._publish(writer):
                back_off.reset()
                # Unless something changed meanwhile, which is not written yet.
                if not self._wake.is_set():
                    self._written.set()
            else:
                await asyncio.sleep(back_off.next_seconds())
                self._wake.set()

    async def _publish(self, writer: ClusterWriter) -> bool:
        node = self._node
        isolation = self._isolation()
        if node is None or isolation is None or not self._inventory.cards:
            return True
        try:
            patch = self._difference(node, isolation)
            if patch is None:
                return True
            # The watch would tell too, but later, and the same would be written again till then.
            written = await writer.patch_node_status(node.name, patch)
            if self._node is node:
                self._node = written
        except ApiNotFound:
            # The node object is gone: the watch will tell when it is there again.
            return True
        except (ApiError, RecordError) as error:
            self._metrics.publish_failures.labels("node").inc()
            if str(error) != self._said:
                log.warning("publishing_fails", what="node", node=node, error=error)
            self._said = str(error)
            return False
        self._said = None
        self._metrics.published.labels("node").inc()
        log.info("node_published", node=node, annotations=len(patch.annotations))
        return True

    def _difference(self, node: Node, isolation: str) -> StatusPatch | None:
        annotations, wanted_labels = self._wanted(isolation)
        patch = StatusPatch(
            uid=node.uid,
            annotations=_differing(annotations, node.annotations),
            labels=_differing(wanted_labels, node.labels),
            status=self._status(node),
        )
        return patch if patch.annotations or patch.labels or patch.status else None

    def _wanted(self, isolation: str) -> tuple[dict[str, str], dict[str, str]]:
        cards = self._inventory.cards
        unit_mib = self._rule.unit_mib
        annotations = {
            GPUS: gpus_annotation(
                cards,
                resource=self._rule.names.memory_resource,
                unit_mib=unit_mib,
                isolation=isolation,
                links=self._links(),
            ),
            HEALTH: health_annotation(
                {card.uuid: self._inventory.health(card.uuid) for card in cards}
            ),
        }
        return annotations, labels(cards, unit_mib=unit_mib, isolation=isolation)

    def _status(self, node: Node) -> dict[str, object]:
        resource = self._rule.names.count_resource
        if resource is None or not _has_units(node, self._rule.names.memory_resource):
            return {}
        count = str(len(self._inventory.cards))
        if node.capacity.get(resource) == node.allocatable.get(resource) == count:
            return {}
        return {"capacity": {resource: count}, "allocatable": {resource: count}}


def _differing(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str | None]:

    return {key: value for key, value in wanted.items() if found.get(key) != value}


def _has_units(node: Node, resource: str) -> bool:
    try:
        return parse_quantity(node.capacity.get(resource, "0")) > 0
    except QuantityError:
        return False
