"""Pods that were told to end and have their grace period still.

Rule: a pod goes when its grace is over, as if its kubelet had ended it; who
wants to end it earlier, or to hold it, does so through the store or the settings.
"""

import asyncio

from gpushare_plugin.sim.apiserver.store import Store
from gpushare_plugin.sim.apiserver.stored import StoredObject


class Graces:
    """The timers, one for each terminating pod."""

    def __init__(self, store: Store, *, enforced: bool, scale: float) -> None:
        self._store = store
        self._enforced = enforced
        self._scale = scale
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, stored: StoredObject, *, grace_seconds: float) -> None:
        """Remove the object after its grace; begun again, the earlier timer is void."""
        if timer := self._timers.pop(stored.uid, None):
            timer.cancel()
        if self._enforced:
            loop = asyncio.get_running_loop()
            seconds = grace_seconds * self._scale
            self._timers[stored.uid] = loop.call_later(seconds, self._over, stored)

    def end(self) -> None:
        """Stop every timer; the pods stay."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _over(self, stored: StoredObject) -> None:
        self._timers.pop(stored.uid, None)
        found = self._store.find(stored.kind, *stored.key)
        if found is not None and found.uid == stored.uid:
            self._store.remove(found)
