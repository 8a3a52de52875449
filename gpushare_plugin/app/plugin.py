"""One resource as the kubelet is served it: its claim on the folder, its service, its lives.

Rule: one instance for each resource on a node; who comes second waits, and says so.
"""

import asyncio
from pathlib import Path

from gpushare_plugin.adapters.kubelet import KubeletClient
from gpushare_plugin.adapters.plugin_folder import InstanceLock, remove_dead_sockets
from gpushare_plugin.errors import PluginSocketError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics, PluginState
from gpushare_plugin.node.registration import KUBELET_SOCKET, End, LifeRule, PluginLife
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.service import DevicePluginService
from gpushare_plugin.node.supervisor import Supervisor
from gpushare_plugin.ports import SocketFiles

log = event_logger(__name__)


class Plugin:
    """Serves one resource for as long as it runs."""

    def __init__(
        self,
        service: DevicePluginService,
        files: SocketFiles,
        metrics: NodeMetrics,
        rule: LifeRule,
        ever_registered: asyncio.Event,
    ) -> None:
        self._service = service
        self._files = files
        self._rule = rule
        kubelet = KubeletClient(rule.plugin_dir / KUBELET_SOCKET)
        self._life = PluginLife(service, kubelet, files, metrics, rule, ever_registered)
        self._supervisor = Supervisor(
            self._live_once,
            files,
            metrics,
            tick_seconds=rule.tick_seconds,
            back_off=BackOff(),
        )
        self._lock = InstanceLock(rule.plugin_dir, rule.resource)
        self._waiting_for: str | None = None

    @property
    def resource(self) -> str:
        """The resource's name."""
        return self._rule.resource

    @property
    def socket(self) -> Path | None:
        """Where it serves; None while it does not."""
        return self._life.socket

    @property
    def problem(self) -> str | None:
        """Why the kubelet is not served; None while it is."""
        state = self.state()
        if state.registered:
            return None
        why = self._waiting_for or self._supervisor.problem or "not registered yet"
        return f"{self.resource}: {why}"

    def state(self) -> PluginState:
        """Return what the metrics show of it."""
        streams = self._service.streams.open
        return PluginState(
            resource=self.resource,
            registered=self._life.registered and streams > 0,
            list_streams=streams,
        )

    async def first_stream(self) -> None:
        """Wait until the kubelet has opened its stream."""
        await self._service.streams.opened.wait()

    async def run(self) -> None:
        """Serve the kubelet until cancelled.

        Raises:
            KubeletRefused: the kubelet will never take us.
        """
        try:
            await self._take_the_folder()
            await self._supervisor.run()
        finally:
            self._lock.release()

    async def _live_once(self) -> End:
        # The kubelet that removed our socket may have removed the lock's file too.
        if not self._lock.take():
            await self._take_the_folder()
        return await self._life.live_once()

    async def _take_the_folder(self) -> None:
        """Wait until no other instance serves this resource here, and clear what they left."""
        while True:
            try:
                problem = None if self._lock.take() else "another instance serves this resource"
            except PluginSocketError as error:
                problem = str(error)
            if problem is None:
                break
            if problem != self._waiting_for:
                log.warning("plugin_folder_unavailable", error=problem, doing="waiting")
            self._waiting_for = problem
            await self._files.changed(timeout_seconds=self._rule.tick_seconds)
        self._waiting_for = None
        remove_dead_sockets(self._rule.plugin_dir, self._rule.socket_prefix)
