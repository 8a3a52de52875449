"""The loop around the lives of the plugin: again after each end, for as long as we run.

Rule 1: a new kubelet is tried at once; anything else waits, longer each time.
Rule 2: one log line for each change of what is wrong, not one for each try.
Rule 3: what can never work ends the daemon, with the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gpushare_plugin.errors import GpushareError, KubeletUnavailable, PluginSocketError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.registration import KUBELET_SOCKET, End
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.ports import SocketFiles

log = event_logger(__name__)

SETTLED_SECONDS = 10.0
"""A life that lasted longer than this did not end for a fault of its beginning."""


class Supervisor:
    """Keeps the plugin registered."""

    def __init__(
        self,
        live_once: Callable[[], Awaitable[End]],
        files: SocketFiles,
        metrics: NodeMetrics,
        *,
        tick_seconds: float,
        back_off: BackOff,
    ) -> None:
        self._live_once = live_once
        self._files = files
        self._metrics = metrics
        self._tick_seconds = tick_seconds
        self._back_off = back_off
        self.problem: str | None = None
        """Why the plugin is not registered, as last seen."""

    async def run(self) -> None:
        """Live, and live again, until cancelled.

        Raises:
            KubeletRefused: the kubelet will never take us.
        """
        while True:
            kubelet = self._files.identity(KUBELET_SOCKET)
            if await self._live():
                continue
            await self._wait(self._back_off.next_seconds(), unless_not=kubelet)

    async def _live(self) -> bool:
        """Live once; say whether to go on without a wait."""
        loop = asyncio.get_running_loop()
        began_seconds = loop.time()
        try:
            end = await self._live_once()
        except (KubeletUnavailable, PluginSocketError) as error:
            self._failed(error)
            return False
        self._metrics.lives_ended.labels(end.value).inc()
        log.warning("plugin_life_ended", reason=end.value)
        self.problem = f"not registered since: {end.value}"
        if end is End.KUBELET_RESTARTED or loop.time() - began_seconds > SETTLED_SECONDS:
            self._back_off.reset()
        return end is End.KUBELET_RESTARTED

    def _failed(self, error: GpushareError) -> None:
        cause = "kubelet" if isinstance(error, KubeletUnavailable) else "own_socket"
        self._metrics.registration_failures.labels(cause).inc()
        if str(error) != self.problem:
            log.warning("not_registered", cause=cause, error=error)
        self.problem = str(error)

    async def _wait(self, seconds: float, *, unless_not: object) -> None:
        """Wait, but no longer than until the kubelet's socket is another one."""
        loop = asyncio.get_running_loop()
        until_seconds = loop.time() + seconds
        while True:
            kubelet = self._files.identity(KUBELET_SOCKET)
            if kubelet is not None and kubelet != unless_not:
                self._back_off.reset()
                return
            left_seconds = until_seconds - loop.time()
            if left_seconds <= 0:
                return
            await self._files.changed(timeout_seconds=min(left_seconds, self._tick_seconds))
