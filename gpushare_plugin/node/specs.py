"""The specs of this node's pods, as the watch brings them.

Rule 1: this is the API server's word; it may be late, and it may be away. Whoever asks
goes on without it.
Rule 2: pods are kept by UID; by name, the one that came last is meant.
Rule 3: what a listing tells of a name is not told of a pod that came after it: that was
another pod of the name.
Rule 4: which pod was given which devices is remembered by UID while this process lives. That
tells a pod that was made anew from the one of its name before, where PodResources does not.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpushare_plugin.core.association import ListedPod, PodName
from gpushare_plugin.core.pods import Phase, Pod
from gpushare_plugin.core.wishes import Specs


class PodSpecs:
    """Holds the specs, and tells of changes."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._came: dict[str, int] = {}
        self._ran: dict[str, int] = {}
        self.revision = 0
        """Counts all that the watch has told."""
        self.come = 0
        """How many pods the watch has told of so far."""
        self._owners: dict[str, str] = {}
        self._containers_served: Counter[tuple[str, str]] = Counter()
        self._served: dict[str, set[str]] = {}
        self._specs = Specs.of((), owners=self._owners, served=self._served)
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

    @property
    def owners(self) -> Mapping[str, str]:
        """By device ID: the UID of the pod that it was given to, as far as that is known."""
        return self._owners

    def ran_before(self, revision: int) -> set[str]:
        """Return the UIDs of the pods that were known to run at that revision."""
        return {uid for uid, ran in self._ran.items() if ran <= revision}

    def find(self, name: PodName, resource: str) -> Pod | None:
        """Return the pod of that name that may be under admission, if the watch told of it.

        One that is to end may be too: ask once a later one of its name had time to come.
        """
        specs = self._specs
        may_be = specs.awaits_admission(name, resource) or specs.ends_unserved(name, resource)
        return specs.by_name[name] if may_be else None

    def given(self, device_ids: Iterable[str], pod: Pod | None, resource: str) -> None:
        """Remember that a container was given these devices, and whose it is if that is known."""
        for device_id in device_ids:
            if pod is None:
                self._owners.pop(device_id, None)
            else:
                self._owners[device_id] = pod.uid
        if pod is None:
            return
        self._containers_served[resource, pod.uid] += 1
        asking = sum(each.requests.get(resource, 0) > 0 for each in pod.containers)
        if self._containers_served[resource, pod.uid] >= asking:
            self._served.setdefault(resource, set()).add(pod.uid)

    def order(self, names: Iterable[PodName]) -> list[PodName]:
        """Return those names that are known, in the order in which the watch brought them."""
        wanted = set(names)
        return [name for name in self._specs.by_name if name in wanted]

    def put(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        self.revision += 1
        if pod.phase is not Phase.PENDING:
            self._ran.setdefault(pod.uid, self.revision)
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
        self._ran.pop(pod.uid, None)
        # What it was given it may hold still: the kubelet lets go of a pod in its own time.
        for resource, served in self._served.items():
            served.discard(pod.uid)
            self._containers_served.pop((resource, pod.uid), None)
        self._tell()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this at each change."""
        self._listeners.append(listener)

    def with_waits(self, listed: Sequence[ListedPod], resource: str) -> tuple[ListedPod, ...]:
        """Return the listed pods, each with whether it lacks what its spec asks for."""
        return self._specs.with_waits(listed, resource)

    def have(self, names: Iterable[PodName], resource: str) -> bool:
        """Say whether all these pods are known, each as one being admitted."""
        return all(self._specs.awaits_admission(name, resource) for name in names)

    def ends_unserved(self, name: PodName, resource: str) -> bool:
        """Say whether the pod of that name is known, and is to end before it was served."""
        return self._specs.ends_unserved(name, resource)

    async def changed(self) -> None:
        """Return once the watch has told something new."""
        await self._changed.wait()

    def _tell(self) -> None:
        self._specs = Specs.of(self._pods.values(), owners=self._owners, served=self._served)
        self._changed.set()
        self._changed = asyncio.Event()
        for listener in self._listeners:
            listener()
