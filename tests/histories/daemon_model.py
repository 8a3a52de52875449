"""The node daemon without its sockets: the real parts, put together as the root does."""

import asyncio
from dataclasses import dataclass, field
from typing import Self

from gpushare_plugin.core.association import Caller
from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.injection import InjectionRule
from gpushare_plugin.core.isolation import Isolation
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.allocator import AllocationRule, Allocator
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.occurrences import Occurrences
from gpushare_plugin.node.pod_publisher import PodPublisher
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings
from gpushare_plugin.ports import PodResources
from gpushare_plugin.ports.cluster import ClusterWriter, Occurrence

RESOURCE = ALIYUN.memory_resource
METRICS = NodeMetrics()


class Heard(Occurrences):
    """Keeps every event that is told."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Occurrence] = []

    def tell(self, occurrence: Occurrence) -> None:
        self.all.append(occurrence)


@dataclass
class Daemon:
    """One life of the daemon."""

    specs: PodSpecs
    admission: Admission
    allocator: Allocator
    publisher: PodPublisher
    heard: Heard
    tasks: "list[asyncio.Task[None]]"
    callers: list[Caller] = field(default_factory=list)
    """What each call of the kubelet was taken for."""

    @classmethod
    def started(
        cls, table: CardTable, pod_resources: PodResources, writer: ClusterWriter, policy: Policy
    ) -> Self:
        loop = asyncio.get_running_loop()
        inventory = Inventory(SharingRule(units=UnitRule(unit_mib=1024)), METRICS)
        inventory.table = table
        specs = PodSpecs()
        specs.watching = True
        admission = Admission(pod_resources, RESOURCE, METRICS, loop.time, specs)
        rule = AllocationRule(
            resource=RESOURCE,
            annotations=ALIYUN.annotations,
            policy=policy,
            injection=InjectionRule(names=ALIYUN.environment),
            isolation=Isolation.NONE,
            unit_mib=1024,
        )
        heard = Heard()
        publisher = PodPublisher(specs, admission, inventory, ALIYUN, METRICS, lambda: 7)
        specs.on_change(publisher.wake)
        admission.on_account(publisher.wake)
        return cls(
            specs=specs,
            admission=admission,
            allocator=Allocator(inventory, specs, rule, METRICS, Tellings(heard)),
            publisher=publisher,
            heard=heard,
            tasks=[
                loop.create_task(admission.run(), name="account"),
                loop.create_task(publisher.run(writer), name="publish"),
            ],
        )

    def told(self, pod: Pod, there: bool) -> None:
        """Take what the watch tells."""
        if there:
            self.specs.put(pod)
        else:
            self.specs.remove(pod)

    async def stop(self) -> None:
        """End this life; what ended by itself is raised."""
        for task in self.tasks:
            task.cancel()
        for ended in await asyncio.gather(*self.tasks, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), f"a part ended: {ended!r}"
