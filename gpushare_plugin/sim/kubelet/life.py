"""One life of the kubelet: from its start to its stop, and nothing that outlives it.

Rule 1: a life begins with the checkpoint and no plugin, and wipes the plugin
folder before it makes kubelet.sock.
Rule 2: pods that stand still at the beginning are admitted anew; pods whose
containers run are left alone, and nothing is asked of a plugin for them.
Rule 3: a life ends at once: streams break, calls fail, no file is removed.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from random import Random

import grpc

from gpushare_plugin.sim.kubelet.admission import Admission, AdmissionError, AdmissionParts
from gpushare_plugin.sim.kubelet.checkpoint import read_checkpoint, write_checkpoint
from gpushare_plugin.sim.kubelet.devices import DeviceAccounts
from gpushare_plugin.sim.kubelet.failures import KubeletStoppedError
from gpushare_plugin.sim.kubelet.faults import FaultsInForce
from gpushare_plugin.sim.kubelet.journal import Journal
from gpushare_plugin.sim.kubelet.pod_table import PodRecord, PodTable
from gpushare_plugin.sim.kubelet.podresources import PodResources, PodResourcesParts
from gpushare_plugin.sim.kubelet.pods import Phase, PodSpec, PodStatus
from gpushare_plugin.sim.kubelet.registration import HEALTHY, Registration, RegistrationParts
from gpushare_plugin.sim.kubelet.settings import CHECKPOINT_FILE, KUBELET_SOCKET, KubeletSettings
from gpushare_plugin.sim.kubelet.socket_files import LastingServer, wipe_sockets
from gpushare_plugin.sim.kubelet.starts import StartParts, Starts
from gpushare_plugin.sim.kubelet.states import ResourceState
from gpushare_plugin.sim.kubelet.tasks import LifeTasks

REJECTED = "UnexpectedAdmissionError"
UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What outlives the kubelet's lives."""

    settings: KubeletSettings
    journal: Journal
    pods: PodTable
    faults: FaultsInForce
    rng: Random


class Life:
    """The parts of a running kubelet, wired together."""

    def __init__(self, node: Node) -> None:
        self.running = True
        self.accounts = _remembered(node)
        self._node = node
        self._tasks = LifeTasks()
        self._admitting = asyncio.Lock()
        self._servers: list[LastingServer] = []
        self.registration = Registration(
            RegistrationParts(
                settings=node.settings,
                faults=node.faults,
                journal=node.journal,
                accounts=self.accounts,
                save=self._save,
                tasks=self._tasks,
            )
        )
        self._admission = Admission(
            AdmissionParts(
                accounts=self.accounts,
                endpoints=self.registration.endpoints,
                rng=node.rng,
                topology_manager=node.settings.topology_manager,
                active_uids=node.pods.active_uids,
                save=self._save,
            )
        )
        self._pod_resources = PodResources(
            PodResourcesParts(
                settings=node.settings,
                faults=node.faults,
                journal=node.journal,
                pods=node.pods,
                accounts=self.accounts,
                rng=node.rng,
            )
        )
        self._starts = Starts(
            StartParts(
                settings=node.settings,
                journal=node.journal,
                pods=node.pods,
                accounts=self.accounts,
                endpoints=self.registration.endpoints,
                rng=node.rng,
                tasks=self._tasks,
            )
        )

    # ---------------------------------------------------------------- begin and end

    async def begin(self, *, wipe_delay_seconds: float) -> None:
        """Come up: wipe the folder, settle the pods, serve both sockets."""
        settings = self._node.settings
        for folder in (settings.plugin_dir, settings.pod_resources_socket.parent):
            folder.mkdir(parents=True, exist_ok=True)
        await asyncio.sleep(wipe_delay_seconds)
        wipe_sockets(settings.plugin_dir)
        await self._resync()
        if self._node.faults.current.pod_resources_absent:
            settings.pod_resources_socket.unlink(missing_ok=True)
        else:
            await self._serve(settings.pod_resources_socket, self._pod_resources.handler())
        await self._serve(settings.plugin_dir / KUBELET_SOCKET, self.registration.handler())

    async def end(self) -> None:
        """Stop as a killed process does."""
        self.running = False
        try:
            await self._tasks.end()
        finally:
            await self.registration.hang_up()
            for server in self._servers:
                await server.stop()

    async def _serve(self, path: Path, handler: grpc.GenericRpcHandler) -> None:
        server = LastingServer(path, handler)
        await server.start()
        self._servers.append(server)

    # ------------------------------------------------------------------------- pods

    async def admit(self, spec: PodSpec) -> PodStatus:
        """Take a pod: list it, give it devices, start it; or reject it."""
        async with self._admitting:
            self._check_running()
            record = self._node.pods.add(spec)
            self._node.journal.changed()
            try:
                await self._decide(record)
            except asyncio.CancelledError:
                # Nobody waits for this pod any more: as if it had never come.
                self._node.pods.remove(spec.uid)
                self.accounts.settle()
                raise
        return await self.bring_up(record)

    async def bring_up(self, record: PodRecord) -> PodStatus:
        """Start what waits in a pod, unless it has ended."""
        if not record.phase.ended:
            await self._starts.bring_up(record)
        self._check_running()
        return record.status()

    async def _decide(self, record: PodRecord) -> None:
        self.accounts.expire(now_seconds=asyncio.get_running_loop().time())
        try:
            await self._admission.admit(record.spec)
        except AdmissionError as rejection:
            # A call that broke because the kubelet stops rejects nobody.
            self._check_running()
            text = f"Pod was rejected: Allocate failed due to {rejection}, which is unexpected"
            record.end(Phase.FAILED, reason=REJECTED, message=text)
        self._node.journal.changed()

    async def _resync(self) -> None:
        async with self._admitting:
            for record in self._node.pods:
                if not record.up and not record.phase.ended:
                    await self._decide(record)
                    await self.bring_up(record)

    def _check_running(self) -> None:
        if not self.running:
            raise KubeletStoppedError("the kubelet was stopped")

    # --------------------------------------------------------------------- accounts

    def resources(self) -> dict[str, ResourceState]:
        """Return what the node reports of each resource."""
        accounts = self.accounts
        if self.running:
            accounts.expire(now_seconds=asyncio.get_running_loop().time())
        return {
            resource: ResourceState(
                capacity=len(accounts.devices(resource)),
                allocatable=len(accounts.healthy(resource)),
                health={
                    device.id: HEALTHY if device.healthy else UNHEALTHY
                    for device in accounts.devices(resource).values()
                },
                allocated=tuple(sorted(accounts.taken(resource))),
            )
            for resource in accounts.names
        }

    def _save(self) -> None:
        write_checkpoint(self._node.settings.plugin_dir / CHECKPOINT_FILE, self.accounts)


def _remembered(node: Node) -> DeviceAccounts:
    memory = read_checkpoint(node.settings.plugin_dir / CHECKPOINT_FILE)
    return DeviceAccounts.restored(
        holdings=memory.holdings,
        resources=memory.resources,
        grace_seconds=node.settings.endpoint_grace_seconds,
        now_seconds=asyncio.get_running_loop().time(),
    )
