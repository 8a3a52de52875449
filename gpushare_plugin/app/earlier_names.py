"""The other names under which earlier starts served this node's cards, settled before we serve.

Rule 1: each has left its card record in the plugin folder; the node's annotation names the last.
Rule 2: cards are offered under one name at a time: while another instance serves them under
another, this one waits; while pods hold units of another, it refuses.
Rule 3: what a name left is removed once we are registered, and not before: settings that
do not work are taken back, and then it is the record again. Its lock is kept till our end.
"""

import asyncio
from pathlib import Path

from gpushare_plugin.adapters.plugin_folder import InstanceLock
from gpushare_plugin.adapters.record_file import RecordFile, recorded_resources
from gpushare_plugin.errors import PluginSocketError, RecordError
from gpushare_plugin.logs import event_logger
from gpushare_plugin.node.held_units import HeldUnits
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.worker import in_thread

log = event_logger(__name__)


class EarlierNames:
    """The names beside our own that were found on this node."""

    def __init__(self, folder: Path, resource_name: str, held: HeldUnits) -> None:
        self._folder = folder
        self._resource_name = resource_name
        self._held = held
        # Now, since kubelets of old empty the folder as they start.
        self._names = set(recorded_resources(folder)) - {resource_name}
        self._locks: dict[str, InstanceLock] = {}
        self._waiting_for: str | None = None

    @property
    def problem(self) -> str | None:
        """Why nothing is served; None if nothing here is in the way."""
        return self._waiting_for

    async def settle(self, annotated: str | None) -> None:
        """Return once the cards are offered under no other name, and nobody holds units of one.

        Args:
            annotated: the name that the node's annotation gives, if any.

        Raises:
            ConfigError: pods hold units of another name, and would be offered anew under ours.
        """
        if annotated not in (None, self._resource_name):
            self._names.add(annotated)
        for name in sorted(self._names):
            await self._lock(name)
            await self._held.refuse_another_name(name)

    async def give_up(self) -> None:
        """Remove what the settled names left; call it once the kubelet has us."""
        for name in self._locks:
            await self._remove(name)

    def close(self) -> None:
        """Let go of the names' locks."""
        for lock in self._locks.values():
            lock.release()

    async def _lock(self, name: str) -> None:
        lock, back_off = InstanceLock(self._folder, name), BackOff()
        while True:
            try:
                problem = None if lock.take() else f"another instance serves the cards as {name}"
            except PluginSocketError as error:
                problem = str(error)
            if problem is not None and problem != self._waiting_for:
                log.warning("plugin_folder_unavailable", error=problem, doing="waiting")
            self._waiting_for = problem
            if problem is None:
                self._locks[name] = lock
                return
            await asyncio.sleep(back_off.next_seconds())

    async def _remove(self, name: str) -> None:
        file = RecordFile(self._folder, name)
        try:
            await in_thread("remove the card record of another name", file.remove)
        except RecordError as error:
            log.warning("card_record_not_removed", error=error, doing="going on")
        log.info("resource_renamed", was=name, now=self._resource_name)
