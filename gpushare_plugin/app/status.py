"""What the node daemon shows of itself: the pages' answers and the gauges, from its parts.

Rule: computed when it is asked for, from what the parts are then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpushare_plugin import __version__
from gpushare_plugin.adapters.kubelet import plugin_answers
from gpushare_plugin.app.aiohttp_import import import_aiohttp
from gpushare_plugin.app.plugin import Plugin
from gpushare_plugin.app.serving import NodeParts
from gpushare_plugin.config import NodeConfig
from gpushare_plugin.core.isolation import Decision
from gpushare_plugin.metrics import NodeMetrics, NodeState, PluginState
from gpushare_plugin.node.account import Accounting, card_states
from gpushare_plugin.node.monitor import GpuMonitor
from gpushare_plugin.node.worker import in_thread

if TYPE_CHECKING:
    from gpushare_plugin.node.status import StatusPages


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The parts that are asked."""

    config: NodeConfig
    parts: NodeParts
    monitor: GpuMonitor
    accounting: Accounting
    plugins: Callable[[], tuple[Plugin, ...]]
    """Empty before there are cards to serve."""
    decision: Callable[[], Decision | None]
    stale_seconds: Callable[[], Mapping[str, float]]
    """Empty without a cluster."""
    problems: Callable[[], tuple[str | None, ...]]
    """What keeps it from being ready, beside the plugins' own; None for nothing."""

    async def show_pages(self) -> None:
        """Serve the status pages until cancelled, if they are asked for."""
        if self.config.status_address is None:
            return
        # In a thread: the kubelet's calls come right behind its stream.
        make_pages = await in_thread("import the status pages", _status_pages, self.parts.metrics)
        pages = make_pages(self.parts.metrics, not_alive=self._not_alive, not_ready=self._not_ready)
        await pages.run(*self.config.status_address)

    def state(self) -> NodeState:
        """Return what the gauges show."""
        account, decision = self.accounting.account(), self.decision()
        shares = None if account is None else account.containers
        return NodeState(
            plugins=self._plugin_states(),
            isolation=decision.isolation.value if decision else "unknown",
            enforced=bool(decision and decision.isolation.enforces),
            nvml_up=self.monitor.problem is None,
            gpus_left_out=len(self.parts.inventory.left_out),
            cards=card_states(self.parts.inventory, shares),
            containers=shares or (),
            unplaced_units=None if account is None else account.unplaced_units,
            stale_seconds=self.stale_seconds(),
            build={"version": __version__},
        )

    async def _not_alive(self) -> tuple[str, ...]:
        if self.monitor.needs_restart is not None:
            return (self.monitor.needs_restart,)
        sockets = [plugin.socket for plugin in self.plugins() if plugin.socket is not None]
        answers = [await plugin_answers(each, timeout_seconds=2) for each in sockets]
        return tuple(
            f"the plugin does not answer on {socket}"
            for socket, answer in zip(sockets, answers, strict=True)
            if not answer
        )

    def _not_ready(self) -> tuple[str, ...]:
        problems = (*self.problems(), *(plugin.problem for plugin in self.plugins()))
        return tuple(problem for problem in problems if problem is not None)

    def _plugin_states(self) -> tuple[PluginState, ...]:
        nothing_yet = PluginState(
            resource=self.config.names.memory_resource, registered=False, list_streams=0
        )
        return tuple(plugin.state() for plugin in self.plugins()) or (nothing_yet,)


def _status_pages(metrics: NodeMetrics) -> "type[StatusPages]":
    import_aiohttp()
    from gpushare_plugin.node.status import StatusPages  # noqa: PLC0415  # 150 ms of import

    metrics.registry  # noqa: B018  # has prometheus_client imported here, too
    return StatusPages
