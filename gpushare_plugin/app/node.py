"""The node daemon's parts list: read `NodeDaemon.__init__`, `run` and `_serve`."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir

from gpushare_plugin.adapters import host
from gpushare_plugin.adapters.nvml import NvmlSource
from gpushare_plugin.adapters.podresources import PodResourcesClient
from gpushare_plugin.adapters.socket_watch import SocketFolder
from gpushare_plugin.app.card_record import CardRecord
from gpushare_plugin.app.cluster import ClusterSide, first_node
from gpushare_plugin.app.serving import (
    NodeParts,
    Serving,
    build_serving,
    control_nodes,
    decide_isolation,
)
from gpushare_plugin.app.status import NodeStatus
from gpushare_plugin.config import NodeConfig
from gpushare_plugin.config.node import Mig
from gpushare_plugin.core.isolation import Decision
from gpushare_plugin.core.node_record import CardLink
from gpushare_plugin.errors import ConfigError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.account import Accounting
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.kubelet_holds import KubeletHolds
from gpushare_plugin.node.monitor import GpuMonitor, MonitorRule
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.worker import in_thread
from gpushare_plugin.ports import Reading
from gpushare_plugin.ports.cluster import Node

log = event_logger(__name__)

RECORD_SECONDS = 2.0
"""How long the first start waits for what the node object says of an earlier one."""
API_CLIENT = "gpushare_plugin.adapters.kube.client"
KUBELET_FIRST_SECONDS = 1.0
"""HTTP server and API client take long to import, so the kubelet goes first, for so long."""


class NodeDaemon:
    """The node daemon under one configuration."""

    def __init__(self, config: NodeConfig) -> None:
        config.check_cluster()
        clock: Callable[[], float] = time.monotonic
        self._config = config
        self._names = config.names
        self._metrics = NodeMetrics()
        self._inventory = Inventory(config.sharing, self._metrics)
        self._monitor = GpuMonitor(
            NvmlSource(library=_nvml_library(config), share_mig=config.mig is Mig.SHARED),
            self._inventory,
            self._metrics,
            MonitorRule(
                xids=config.xid_rule, health=config.health, probe_seconds=config.probe_seconds
            ),
            clock,
        )
        self._pod_resources = PodResourcesClient(config.pod_resources_socket)
        self._specs = PodSpecs()
        self._admission = Admission(
            self._pod_resources, self._names.memory_resource, self._metrics, clock, self._specs
        )
        self._files = SocketFolder(config.plugin_dir)
        self._ever_registered = asyncio.Event()
        self._parts = NodeParts(
            inventory=self._inventory,
            admission=self._admission,
            specs=self._specs,
            metrics=self._metrics,
            new_files=self._files.waiter,
            ever_registered=self._ever_registered,
        )
        self._record = CardRecord(config, self._parts, self._pod_resources)
        self._cgpu_disable = config.cgpu_disable
        self._cluster = ClusterSide(
            config,
            self._parts,
            isolation=self._isolation_name,
            links=self._card_links,
            node_changed=self._node_changed,
        )
        self._serving: Serving | None = None
        self._decision: Decision | None = None
        self._holds = KubeletHolds(self._units_held, self._inventory)
        self._admission.on_account(self._holds.ask_along)
        self._hooks = host.LimitHooks(config.cdi_dirs)
        self._status = NodeStatus(
            config=config,
            parts=self._parts,
            monitor=self._monitor,
            accounting=Accounting(self._specs, self._admission, self._inventory, self._names),
            plugins=lambda: self._serving.plugins if self._serving else (),
            decision=lambda: self._decision,
            stale_seconds=lambda: self._cluster.stale_seconds,
            problems=lambda: (self._monitor.problem, self._record.problem, self._holds.problem),
        )
        self._metrics.show(self._status.state)

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            ExceptionGroup: of a `KubeletRefused` or a `ConfigError`; the daemon cannot work so.
        """
        try:
            with ExitStack() as held:
                held.enter_context(self._files)
                held.callback(self._record.close)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._speak_with_cluster(), name="speak with the cluster")
                    tasks.create_task(self._watch_gpus(), name="monitor the GPUs")
                    tasks.create_task(self._serve(tasks), name="serve the kubelet")
                    tasks.create_task(self._account(), name="account for who holds what")
                    tasks.create_task(self._record.keep(), name="keep the card record")
                    tasks.create_task(self._show_status(), name="show the status pages")
        finally:
            await self._pod_resources.close()

    async def _speak_with_cluster(self) -> None:
        """Speak with the API server; after the kubelet where nothing of it is waited for."""
        if self._config.without_cluster:
            return
        if self._record.is_on_node:
            await self._after_the_kubelet()
            # In a thread: the kubelet's calls come right behind its stream.
            await in_thread("import the API client", import_module, API_CLIENT)
        await self._cluster.run()

    async def _watch_gpus(self) -> None:
        """Watch the GPUs once it is known which index each card had before."""
        if not (self._record.is_on_node or self._config.without_cluster):
            await first_node(self._cluster, timeout_seconds=RECORD_SECONDS)
        self._monitor.before_first(self._record.recall)
        await self._monitor.run()

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        reading = await self._monitor.first_reading
        await self._record.check_held()
        self._decide(reading)
        serving = build_serving(self._config, self._parts, self._cluster, self._isolation())
        serving.allocator.set_cgpu_disable(disabled=self._cgpu_disable)
        self._serving = serving
        self._cluster.wake()
        self._monitor.on_reading(self._decide)
        # A module may be loaded, or unloaded, after we have started.
        self._monitor.on_reading(
            lambda _: serving.allocator.set_control_nodes(control_nodes(self._config))
        )
        for plugin in serving.plugins:
            tasks.create_task(plugin.run(), name=f"serve {plugin.resource}")

    def _decide(self, reading: Reading) -> None:
        """Decide on the isolation as the host is now: CDI specs and drivers come and go.

        Raises:
            ConfigError: the one that was asked for cannot work here, from the beginning.
        """
        before = self._decision
        try:
            decision = decide_isolation(self._config, self._inventory, reading, self._hooks)
        except ConfigError as error:
            if before is None:
                raise
            # It was asked for by name: containers fail to start rather than run without.
            log.warning("isolation_fails", error=error)
            return
        self._decision = decision
        self._cluster.wake()
        if before is not None and before.isolation is decision.isolation:
            return
        isolation = decision.isolation
        log.info(
            "isolation",
            isolation=isolation.value,
            enforced=isolation.enforces,
            reason=decision.reason,
        )
        if self._serving is not None:
            self._serving.allocator.set_isolation(isolation)

    def _isolation(self) -> Decision:
        if self._decision is None:
            raise AssertionError("asked for before the first look at the GPUs")
        return self._decision

    def _card_links(self) -> tuple[CardLink, ...]:
        index = {card.uuid: card.index for card in self._inventory.cards}
        return tuple(
            CardLink(cards=(index[one], index[other]), nvlinks=link.nvlinks)
            for link in self._monitor.links
            for one, other in [link.uuids]
            if link.nvlinks and one in index and other in index
        )

    def _node_changed(self, node: Node) -> None:
        """Take what the node object says of this node's earlier and present settings."""
        self._record.take_node(node)
        label = self._names.isolation_label
        by_label = label is not None and node.labels.get(label) == "true"
        self._cgpu_disable = self._config.cgpu_disable or by_label
        if self._serving is not None:
            self._serving.allocator.set_cgpu_disable(disabled=self._cgpu_disable)

    def _isolation_name(self) -> str | None:
        return self._decision.isolation.value if self._decision else None

    async def _account(self) -> None:
        # Nobody holds anything of ours before we have registered.
        await self._ever_registered.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._admission.run(), name="list who holds what")
            tasks.create_task(self._holds.run(), name="ask what the kubelet holds of us")

    async def _units_held(self) -> int:
        return await self._pod_resources.allocatable_units(
            self._names.memory_resource, timeout_seconds=1
        )

    async def _show_status(self) -> None:
        await self._after_the_kubelet()
        await self._status.show_pages()

    async def _after_the_kubelet(self) -> None:
        """Return once the kubelet has us and has opened its stream; not too late without it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KUBELET_FIRST_SECONDS):
                await self._ever_registered.wait()
                if self._serving is not None:
                    await self._serving.memory.first_stream()


def _nvml_library(config: NodeConfig) -> Path | None:
    if config.simulate is None:
        return config.nvml_library
    from gpushare_plugin.sim.gpus import simulate  # noqa: PLC0415  # no real node needs it

    # The file need not exist: who wants faults names one, or appends to this.
    unnamed = Path(gettempdir()) / f"gpushare-events-{os.getpid()}"
    events = config.simulate_events or unnamed
    gpus = simulate(config.simulate, events=events)
    log.warning("gpus_are_simulated", profile=gpus.profile, events=gpus.events)
    return gpus.library
