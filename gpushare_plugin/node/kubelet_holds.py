"""Whether the kubelet still holds the units that it was told of.

A stream can be open and the kubelet's side of it gone (k8s-device-plugin issue 1228): the
node then shows nothing, and only the kubelet can say so.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from gpushare_plugin.errors import PodResourcesError
from gpushare_plugin.node.inventory import Inventory

BETWEEN_SECONDS = 5.0
SLOW_TICK_SECONDS = 60.0
"""At the latest, while all is well: usually the account is asked for before, and we along."""


class KubeletHolds:
    """Asks the kubelet again and again what it holds of ours."""

    def __init__(self, ask: Callable[[], Awaitable[int]], inventory: Inventory) -> None:
        """`ask` returns the units that the kubelet holds; it raises PodResourcesError."""
        self._ask = ask
        self._inventory = inventory
        self._units: int | None = None
        self._asked_otherwise = asyncio.Event()

    @property
    def problem(self) -> str | None:
        """What is wrong if the kubelet holds nothing; None too while that is not known."""
        healthy_units = self._inventory.snapshot().healthy_units
        if self._units != 0 or not healthy_units:
            return None
        return f"the kubelet holds none of the {healthy_units} units that it was told of"

    async def look(self) -> None:
        """Ask once."""
        try:
            self._units = await self._ask()
        except PodResourcesError:
            self._units = None

    def ask_along(self) -> None:
        """Say that the kubelet was just asked something else: two questions wake us once."""
        self._asked_otherwise.set()

    async def run(self) -> None:
        """Ask until cancelled: often while the kubelet holds nothing or does not say."""
        while True:
            await asyncio.sleep(BETWEEN_SECONDS)
            if self._units:
                self._asked_otherwise.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(SLOW_TICK_SECONDS):
                        await self._asked_otherwise.wait()
            await self.look()
