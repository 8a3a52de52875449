"""The specs of this node's pods, as the watch brings them.

Rule 1: this is the API server's word; it may be late, and it may be away. Whoever asks
goes on without it.
Rule 2: pods are kept by UID; by name, the one that came last is meant.
Rule 3: what a listing tells of a name is not told of a pod that came after it: that was
another pod of the name.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from gpushare_plugin.core.association import ListedPod, PodName
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.wishes import Specs


class PodSpecs:
    """Holds the specs, and tells of changes."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._came: dict[str, int] = {}
        self.come = 0
        """How many pods the watch has told of so far."""
        self._specs = Specs.of(())
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self.watching = False
        """Whether a watch brings pods at all; without a cluster nobody waits for them."""

    @property
    def pods(self) -> Iterable[Pod]:
        """All pods that the watch has told of."""
        return self._pods.values()

    def came_before(self, come: int) -> list[Pod]:
        """Return the pods that were known when so many had come."""
        return [pod for uid, pod in self._pods.items() if self._came[uid] <= come]

    def find(self, name: PodName) -> Pod | None:
        """Return the pod of that name that may be under admission, if the watch told of it."""
        return self._specs.by_name[name] if self._specs.awaits_admission(name) else None

    def order(self, names: Iterable[PodName]) -> list[PodName]:
        """Return those names that are known, in the order in which the watch brought them."""
        wanted = set(names)
        return [name for name in self._specs.by_name if name in wanted]

    def put(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        if pod.uid not in self._pods:
            self.come += 1
            self._came[pod.uid] = self.come
        self._pods[pod.uid] = pod
        self._tell()

    def put_written(self, before: Pod, pod: Pod) -> None:
        """Take a pod as a write of ours left it, unless the watch has told otherwise meanwhile."""
        if self._pods.get(before.uid) is before:
            self.put(pod)

    def remove(self, pod: Pod) -> None:
        """Forget a pod."""
        self._pods.pop(pod.uid, None)
        self._came.pop(pod.uid, None)
        self._tell()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this at each change."""
        self._listeners.append(listener)

    def with_waits(self, listed: Sequence[ListedPod], resource: str) -> tuple[ListedPod, ...]:
        """Return the listed pods, each with whether it lacks what its spec asks for."""
        return self._specs.with_waits(listed, resource)

    async def wait_for(self, names: frozenset[PodName], *, timeout_seconds: float) -> bool:
        """Wait until all these pods are known, each as one being admitted; say whether they are."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not all(map(self._specs.awaits_admission, names)):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _tell(self) -> None:
        self._specs = Specs.of(self._pods.values())
        self._changed.set()
        self._changed = asyncio.Event()
        for listener in self._listeners:
            listener()
