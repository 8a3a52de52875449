"""The API server in the small: pods, a watch that lags, and writes that go wrong."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiConflict, ApiError, ApiNotFound, ApiRefused, ApiUnavailable
from gpushare_plugin.ports.cluster import Node, StatusPatch

AFTER_SECONDS = 1e-5
"""A loop keeps no order among what is due at the very same time."""

Watcher = Callable[[Pod, bool], None]
"""Is told of a pod, and whether it is still there."""


class WriteFault(Enum):
    """How a write goes wrong."""

    AWAY = "away"
    CONFLICT = "conflict"
    FORBIDDEN = "forbidden"
    ANSWER_LOST = "answer lost"
    SLOW = "slow"


_ERRORS: dict[WriteFault, type[ApiError]] = {
    WriteFault.AWAY: ApiUnavailable,
    WriteFault.CONFLICT: ApiConflict,
    WriteFault.FORBIDDEN: ApiRefused,
}


@dataclass
class ApiModel:
    """The pods of one node, and who watches them."""

    draw: Random
    pods: dict[str, Pod] = field(default_factory=dict)
    lag_seconds: float = 0.0
    faults: list[WriteFault] = field(default_factory=list)
    """What strikes the next writes, one each."""
    writes: int = 0
    _watcher: Watcher | None = None
    _told_until: float = 0.0

    # ------------------------------------------------------------------ the cluster's side

    def named(self, namespace: str, name: str) -> Pod | None:
        return next(
            (pod for pod in self.pods.values() if (pod.namespace, pod.name) == (namespace, name)),
            None,
        )

    def put(self, pod: Pod) -> Pod:
        self.pods[pod.uid] = pod
        self._tell(pod, there=True)
        return pod

    def remove(self, uid: str) -> None:
        self._tell(self.pods.pop(uid), there=False)

    def watch(self, watcher: Watcher) -> None:
        """List all pods, in any order, and tell of each change from now on, as late as may be."""
        self._watcher = watcher
        for pod in self.draw.sample(list(self.pods.values()), len(self.pods)):
            self._tell(pod, there=True)

    def unwatch(self) -> None:
        self._watcher = None

    def _tell(self, pod: Pod, *, there: bool) -> None:
        watcher = self._watcher
        if watcher is None:
            return
        loop = asyncio.get_running_loop()
        # In order, as on one connection: what comes later is never told earlier.
        when = loop.time() + self.lag_seconds
        if self._told_until < when == loop.time():
            watcher(pod, there)
            return
        self._told_until = max(self._told_until + AFTER_SECONDS, when)
        loop.call_at(self._told_until, self._deliver, watcher, pod, there)

    def _deliver(self, watcher: Watcher, pod: Pod, there: bool) -> None:
        if watcher is self._watcher:
            watcher(pod, there)

    # ------------------------------------------------------------------- the writer's side

    async def patch_pod_status(self, namespace: str, name: str, patch: StatusPatch) -> Pod:
        self.writes += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault in _ERRORS:
            raise _ERRORS[fault](f"{fault.value}, on request")
        await asyncio.sleep(0.5 if fault is WriteFault.SLOW else 0.002)
        pod = self.named(namespace, name)
        if pod is None:
            raise ApiNotFound(f"no pod {name}")
        if pod.uid != patch.uid:
            raise ApiConflict(f"another pod {name}")
        annotations = {**pod.annotations}
        for key, value in patch.annotations.items():
            assert value is not None
            annotations[key] = value
        written = self.put(replace(pod, annotations=annotations))
        if fault is WriteFault.ANSWER_LOST:
            raise ApiUnavailable("the answer was lost, on request")
        await asyncio.sleep(0.002)
        return written

    async def patch_node_status(self, name: str, patch: StatusPatch) -> Node:  # noqa: ARG002
        raise AssertionError("no history is about the node object")
