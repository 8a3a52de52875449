"""The pods of the node: what the API server and the container runtime remember.

Rule: the table outlives restarts of the kubelet, as a pod and its containers
do; what devices it holds is not here but in the accounts and the checkpoint.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from gpushare_plugin.sim.kubelet.failures import UnknownPodError
from gpushare_plugin.sim.kubelet.pods import (
    ContainerState,
    ContainerStatus,
    Phase,
    PodSpec,
    PodStatus,
)


class PodRecord:
    """One pod and what became of it."""

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.phase = Phase.PENDING
        self.reason = ""
        self.message = ""
        self.starting = asyncio.Lock()
        """Held while containers are started: a pod has one worker."""
        self.containers = {
            container.name: ContainerStatus(name=container.name, init=init)
            for container, init in spec.in_start_order()
        }

    @property
    def up(self) -> bool:
        """Whether every container runs, or has done its part."""
        return all(c.state is not ContainerState.WAITING for c in self.containers.values())

    def end(self, phase: Phase, *, reason: str = "", message: str = "") -> None:
        """Let the pod end; its containers end with it."""
        self.phase, self.reason, self.message = phase, reason, message
        for name, container in self.containers.items():
            self.containers[name] = replace(container, state=ContainerState.TERMINATED)

    def die(self, name: str) -> None:
        """Let one container die, to be started again."""
        if name not in self.containers:
            raise UnknownPodError(f"pod {self.spec.uid} has no container {name}")
        container = self.containers[name]
        self.containers[name] = replace(
            container, state=ContainerState.WAITING, restarts=container.restarts + 1
        )

    def status(self) -> PodStatus:
        """Return the pod as it is reported."""
        return PodStatus(
            namespace=self.spec.namespace,
            name=self.spec.name,
            uid=self.spec.uid,
            phase=self.phase,
            reason=self.reason,
            message=self.message,
            containers=tuple(self.containers.values()),
        )


class PodTable:
    """The pods by UID, in the order in which they were admitted."""

    def __init__(self) -> None:
        self._records: dict[str, PodRecord] = {}

    def __iter__(self) -> Iterator[PodRecord]:
        return iter(tuple(self._records.values()))

    def add(self, spec: PodSpec) -> PodRecord:
        """Take up a new pod."""
        if spec.uid in self._records:
            raise UnknownPodError(f"pod {spec.uid} is here already")
        record = self._records[spec.uid] = PodRecord(spec)
        return record

    def get(self, uid: str) -> PodRecord:
        """Return the pod of that UID."""
        if uid not in self._records:
            raise UnknownPodError(f"there is no pod {uid}")
        return self._records[uid]

    def holds(self, record: PodRecord) -> bool:
        """Whether the pod is still there."""
        return self._records.get(record.spec.uid) is record

    def remove(self, uid: str) -> None:
        """Forget a pod that was deleted."""
        self.get(uid)
        del self._records[uid]

    def active_uids(self) -> set[str]:
        """Return the pods that keep their devices."""
        return {uid for uid, record in self._records.items() if not record.phase.ended}
