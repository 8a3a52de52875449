"""What depends on who holds units at the start: another unit or name, cards to be forgotten.

Rule: what pods hold is never doubted away. While the kubelet does not tell who holds
what, another unit or name is not served, and no card is forgotten.
"""

import asyncio
from collections.abc import Collection

from gpushare_plugin.core.association import ListedPod
from gpushare_plugin.core.card_record import Record, RecordedCard
from gpushare_plugin.core.devices import Gpu
from gpushare_plugin.core.recall import forgettable, held_by, without
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import unit_text
from gpushare_plugin.errors import ConfigError, PodResourcesError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports import PodResources

log = event_logger(__name__)

LIST_SECONDS = 2.0
PODS_NAMED = 3
"""A line with every pod of a full node could not be read."""


class HeldUnits:
    """Asks the kubelet, and decides."""

    def __init__(
        self, pod_resources: PodResources, resource_name: str, *, forget_seconds: float
    ) -> None:
        """`forget_seconds` is how long the start may be held up by cards to be forgotten."""
        self._pod_resources = pod_resources
        self._resource_name = resource_name
        self._forget_seconds = forget_seconds
        self.problem: str | None = None
        """Why nothing is served; None if nothing here is in the way."""

    async def refuse_another_unit(self, record: Record | None, *, unit_mib: int) -> None:
        """Return once it is sure that no pod holds units of another size.

        Raises:
            ConfigError: one does; its units would be of another size than it asked for.
        """
        if record is None or record.unit_mib == unit_mib:
            return
        found = f"memory unit {unit_text(unit_mib)}: this node shares by"
        found = f"{found} {unit_text(record.unit_mib)}"
        pods = await self._pods(f"{found}, and who holds such units is not known")
        holding = [str(each.pod) for each in pods if each.holds_devices]
        if holding:
            raise ConfigError(
                f"{found}, and pods hold such units ({', '.join(holding[:PODS_NAMED])}); drain"
                " the node first, or keep its unit"
            )

    async def refuse_another_name(self, name: str) -> None:
        """Return once it is sure that no pod holds units under a name that was served before.

        Raises:
            ConfigError: one does; under our name its units would be offered once more.
        """
        found = f"resource {self._resource_name}: this node served its cards as {name}"
        pods = await self._pods(f"{found}, and who holds such units is not known", name)
        holding = [str(each.pod) for each in pods if each.holds_devices]
        if holding:
            raise ConfigError(
                f"{found}, and pods hold such units ({', '.join(holding[:PODS_NAMED])}); drain"
                f" the node first, or keep {name}"
            )

    async def forget(
        self, record: Record, named: Collection[str], gpus: Collection[Gpu], rule: SharingRule
    ) -> Record:
        """Return the record without the named cards, or as it is where that cannot be."""
        gone = forgettable(record, named, gpus, rule)
        if not gone:
            return record
        cards = ",".join(card.uuid for card in gone)
        try:
            async with asyncio.timeout(self._forget_seconds):
                pods = await self._pods("who holds units is not known")
        except TimeoutError:
            reason = self.problem
            self.problem = None
            log.error("card_not_forgotten", cards=cards, reason=reason, doing="keeping them")
            return record
        if holding := held_by(pods, record, gone):
            which = ", ".join(str(pod) for pod in holding[:PODS_NAMED])
            reason = f"pods hold units of them or of cards behind them ({which}); drain the node"
            log.error("card_not_forgotten", cards=cards, reason=reason, doing="keeping them")
            return record
        _say_forgotten(gone)
        return without(record, gone)

    async def _pods(self, doubt: str, resource: str | None = None) -> Collection[ListedPod]:
        """Return the kubelet's account of a resource, ours unless another is named.

        It is asked for however long that takes; each trouble is said once.
        """
        back_off = BackOff()
        while True:
            try:
                pods = await self._pod_resources.list_pods(
                    resource or self._resource_name, timeout_seconds=LIST_SECONDS
                )
            except PodResourcesError as error:
                problem = f"{doubt}: {error}"
                if problem != self.problem:
                    log.warning("held_units_unknown", error=problem, doing="asking again")
                self.problem = problem
                await asyncio.sleep(back_off.next_seconds())
            else:
                self.problem = None
                return pods


def _say_forgotten(gone: Collection[RecordedCard]) -> None:
    for card in gone:
        log.warning("card_forgotten", card=card.index, uuid=card.uuid, units=card.units)
