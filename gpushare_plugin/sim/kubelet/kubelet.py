"""The simulated kubelet that tests, the demo and benchmarks drive.

Rule 1: everything that a kubelet is told from outside is one method here, and
the same verb on the control socket.
Rule 2: the object is the node, which stays; a kubelet's life comes and goes in it.
"""

import asyncio
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Self

from gpushare_plugin.sim.kubelet.failures import KubeletStoppedError
from gpushare_plugin.sim.kubelet.faults import Faults, FaultsInForce
from gpushare_plugin.sim.kubelet.journal import Journal
from gpushare_plugin.sim.kubelet.life import Life, Node
from gpushare_plugin.sim.kubelet.pod_table import PodTable
from gpushare_plugin.sim.kubelet.pods import ContainerStatus, Phase, PodSpec, PodStatus
from gpushare_plugin.sim.kubelet.settings import KubeletSettings
from gpushare_plugin.sim.kubelet.states import KubeletState, ResourceState


class SimKubelet:
    """A kubelet as device plugins and readers of PodResources meet it."""

    def __init__(self, settings: KubeletSettings) -> None:
        self._node = Node(
            settings=settings,
            journal=Journal(rpc_log_entries=settings.rpc_log_entries),
            pods=PodTable(),
            faults=FaultsInForce(),
            rng=Random(settings.seed),  # noqa: S311 - disorder that repeats, not a secret
        )
        self._life: Life | None = None
        self._switching = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def settings(self) -> KubeletSettings:
        """What it was made with."""
        return self._node.settings

    # -------------------------------------------------------------------- life verbs

    async def start(self, *, wipe_delay_seconds: float = 0.0) -> None:
        """Start the kubelet, unless it runs; the wiping of sockets may be made to come late."""
        async with self._switching:
            if self._running():
                return
            life = self._life = Life(self._node)
            self._node.journal.changed()
            try:
                await life.begin(wipe_delay_seconds=wipe_delay_seconds)
            except BaseException:
                await life.end()
                raise
            self._node.journal.changed()

    async def stop(self) -> None:
        """Stop it, if it runs, as a signal would: at once, and no file is removed."""
        async with self._switching:
            if self._life is not None and self._life.running:
                await self._life.end()
                self._node.journal.changed()

    async def restart(self, *, gap_seconds: float = 0.0, wipe_delay_seconds: float = 0.0) -> None:
        """Stop it and start it again."""
        await self.stop()
        await asyncio.sleep(gap_seconds)
        await self.start(wipe_delay_seconds=wipe_delay_seconds)

    async def reboot(self, *, gap_seconds: float = 0.0) -> None:
        """Restart the machine: every container is dead, and no plugin is back yet."""
        await self.stop()
        for record in self._node.pods:
            for name in record.containers if not record.phase.ended else ():
                record.die(name)
        await asyncio.sleep(gap_seconds)
        await self.start()

    # --------------------------------------------------------------------- pod verbs

    async def admit(self, pod: PodSpec) -> PodStatus:
        """Admit a pod and start it; a rejected one comes back as Failed, with reason and message.

        Returns after the first attempt to start every container; one that could not
        start is waiting and goes on being tried.
        """
        return await self._alive().admit(pod)

    async def delete_pod(self, uid: str) -> None:
        """Let a pod go; the plugin is told nothing."""
        self._node.pods.remove(uid)
        self._node.journal.changed()

    async def finish_pod(self, uid: str, phase: Phase) -> PodStatus:
        """Let a pod end by itself, as Succeeded or Failed; the plugin is told nothing."""
        record = self._node.pods.get(uid)
        record.end(phase)
        self._node.journal.changed()
        return record.status()

    async def restart_container(self, uid: str, container: str) -> ContainerStatus:
        """Let one container die, and start it again from the answer it was given at first."""
        life, record = self._alive(), self._node.pods.get(uid)
        record.die(container)
        return (await life.bring_up(record)).container(container)

    # ------------------------------------------------------------------- fault verbs

    async def set_faults(self, faults: Faults) -> None:
        """Replace the faults in force; `Faults()` ends them all."""
        self._node.faults.set(faults)

    async def drop_stream(self, resource: str) -> None:
        """Break off the connection to a resource's plugin from this side, and never dial again."""
        await self._alive().registration.drop(resource)

    # ------------------------------------------------------------------------- looking

    def state(self) -> KubeletState:
        """Return everything there is to see, at this moment."""
        journal = self._node.journal
        return KubeletState(
            version=journal.version,
            running=self._running(),
            registrations=tuple(journal.registrations),
            rejections=tuple(journal.rejections),
            resources=self._life.resources() if self._life is not None else {},
            streams=journal.streams,
            rpcs=tuple(journal.rpcs),
            pods=tuple(record.status() for record in self._node.pods),
        )

    async def newer_state(self, than: int, *, timeout_seconds: float = 5.0) -> KubeletState:
        """Return the state once its version is above `than`."""
        journal = self._node.journal
        await self.until(
            lambda: journal.version > than,
            failure=lambda: f"nothing changed since version {than}",
            timeout_seconds=timeout_seconds,
        )
        return self.state()

    async def until(
        self,
        holds: Callable[[], bool],
        *,
        failure: Callable[[], str],
        timeout_seconds: float = 5.0,
    ) -> None:
        """Wait until `holds` does, asked again after every change; in process only."""
        await self._node.journal.until(holds, failure=failure, timeout_seconds=timeout_seconds)

    async def registered(
        self, resource: str, *, count: int = 1, timeout_seconds: float = 5.0
    ) -> None:
        """Wait until a resource was registered at least so many times since the node exists."""
        journal = self._node.journal
        await self.until(
            lambda: journal.accepted(resource) >= count,
            failure=lambda: (
                f"{resource} was registered {journal.accepted(resource)} times, not {count};"
                f" refused: {[record.error for record in journal.rejections]}"
            ),
            timeout_seconds=timeout_seconds,
        )

    async def allocatable(
        self, resource: str, *, equals: int, timeout_seconds: float = 5.0
    ) -> None:
        """Wait until so many devices of a resource can be given out."""
        await self._counted(resource, "allocatable", equals, timeout_seconds)

    async def capacity(self, resource: str, *, equals: int, timeout_seconds: float = 5.0) -> None:
        """Wait until a resource has so many devices, healthy or not."""
        await self._counted(resource, "capacity", equals, timeout_seconds)

    async def pod_in_phase(
        self, uid: str, phase: Phase, *, timeout_seconds: float = 5.0
    ) -> PodStatus:
        """Wait until a pod is in a phase; return it."""
        pods = self._node.pods
        await self.until(
            lambda: any(r.spec.uid == uid and r.phase is phase for r in pods),
            failure=lambda: f"pod {uid} never was {phase}: {[r.status() for r in pods]}",
            timeout_seconds=timeout_seconds,
        )
        return pods.get(uid).status()

    async def _counted(
        self, resource: str, count: str, equals: int, timeout_seconds: float
    ) -> None:
        def current() -> ResourceState | None:
            return self._life.resources().get(resource) if self._life is not None else None

        await self.until(
            lambda: getattr(current(), count, None) == equals,
            failure=lambda: (
                f"{count} of {resource} is not {equals}: {_counts(current())};"
                f" streams: {self._node.journal.streams}"
            ),
            timeout_seconds=timeout_seconds,
        )

    def _running(self) -> bool:
        return self._life is not None and self._life.running

    def _alive(self) -> Life:
        if self._life is None or not self._life.running:
            raise KubeletStoppedError("the kubelet is not running")
        return self._life


def _counts(state: ResourceState | None) -> str:
    if state is None:
        return "the node does not know it"
    return f"capacity {state.capacity}, allocatable {state.allocatable}"
