"""What really happened, written on the pods: which card each container got.

Rule 1: state is compared: what a pod is annotated with against what PodResources
lists; so a lost write, an API server that was away and a restart of ours are all the
same case.
Rule 2: one pod that cannot be written keeps no other waiting.
"""

import asyncio
import time
from collections.abc import Callable

from gpushare_plugin.core.bookkeeping import bookkeeping
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.ledger import Holding, Ledger
from gpushare_plugin.errors import ApiError, ApiNotFound
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.account import Accounting
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.ports.cluster import ClusterWriter, StatusPatch

log = event_logger(__name__)


class PodPublisher:
    """Keeps the annotations of this node's pods true."""

    def __init__(
        self,
        specs: PodSpecs,
        admission: Admission,
        inventory: Inventory,
        names: Dialect,
        metrics: NodeMetrics,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._specs = specs
        self._admission = admission
        self._inventory = inventory
        self._names = names
        self._metrics = metrics
        self._now_ns = now_ns
        self._accounting = Accounting(specs, admission, inventory, names)
        self._wake = asyncio.Event()
        self._failing = False
        self._postponed: set[str] = set()
        self._retry: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Compare again: something has changed."""
        self._wake.set()

    def ledger(self) -> Ledger | None:
        """Return who was given what, joined with the pods; None while that is not known."""
        return self._accounting.ledger()

    async def run(self, writer: ClusterWriter) -> None:
        """Write what differs, at each change, until cancelled."""
        back_off = BackOff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._publish(writer)
            if not self._postponed:
                back_off.reset()
            elif self._retry is None:
                loop = asyncio.get_running_loop()
                self._retry = loop.call_later(back_off.next_seconds(), self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._postponed.clear()
        self._wake.set()

    async def _publish(self, writer: ClusterWriter) -> None:
        """Write each pod that differs; those that cannot be written now are postponed."""
        if self._specs.come > self._admission.pods_come:
            # Pods that came after the listing have their part in the next one.
            self._admission.allocation_happened()
        ledger = self.ledger()
        for uid, holding in ledger.holdings.items() if ledger else ():
            if uid not in self._postponed and not await self._write(writer, holding):
                self._postponed.add(uid)

    async def _write(self, writer: ClusterWriter, holding: Holding) -> bool:
        pod = holding.pod
        annotations = bookkeeping(
            holding,
            self._inventory.table,
            self._names.annotations,
            resource=self._names.memory_resource,
            now_ns=self._now_ns(),
        )
        if not annotations:
            return True
        try:
            patch = StatusPatch(uid=pod.uid, annotations=annotations)
            # The watch would tell too, but later, and the same would be written again till then.
            written = await writer.patch_pod_status(pod.namespace, pod.name, patch)
            self._specs.put_written(pod, written)
        except ApiNotFound:
            # It is gone: the watch will tell.
            return True
        except ApiError as error:
            self._metrics.publish_failures.labels("pod").inc()
            if not self._failing:
                log.warning("publishing_fails", what="pod", pod=pod, error=error)
            self._failing = True
            return False
        self._failing = False
        self._metrics.published.labels("pod").inc()
        log.info("pod_published", pod=pod, annotations=len(annotations))
        return True
