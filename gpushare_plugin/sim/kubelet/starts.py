"""Starting the containers of an admitted pod.

Rule 1: a start takes the answer that the plugin gave at admission; it never allocates.
Rule 2: PreStartContainer is called before every start, restarts included, where
the plugin's options ask for it; unknown options (a kubelet that just started) ask for nothing.
Rule 3: a container that can't start waits, and is tried again until it does.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from gpushare_plugin.sim.kubelet.containers import started
from gpushare_plugin.sim.kubelet.devices import DeviceAccounts
from gpushare_plugin.sim.kubelet.endpoint import Endpoint, PluginCallError
from gpushare_plugin.sim.kubelet.journal import Journal
from gpushare_plugin.sim.kubelet.pod_table import PodRecord, PodTable
from gpushare_plugin.sim.kubelet.pods import ContainerSpec, ContainerState, ContainerStatus, Phase
from gpushare_plugin.sim.kubelet.settings import KubeletSettings
from gpushare_plugin.sim.kubelet.tasks import LifeTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StartParts:
    """What starting works with."""

    settings: KubeletSettings
    journal: Journal
    pods: PodTable
    accounts: DeviceAccounts
    endpoints: Mapping[str, Endpoint]
    rng: Random
    tasks: LifeTasks


class Starts:
    """Brings containers up."""

    def __init__(self, parts: StartParts) -> None:
        self._parts = parts

    async def bring_up(self, record: PodRecord) -> None:
        """Start what waits; leave a task behind that goes on trying where that fails."""
        await self._try(record)
        if not record.up:
            name = f"start pod {record.spec.namespace}/{record.spec.name}"
            self._parts.tasks.spawn(self._keep_trying(record), name=name)

    async def _keep_trying(self, record: PodRecord) -> None:
        while not record.up and self._parts.pods.holds(record):
            await asyncio.sleep(self._parts.settings.start_retry_seconds)
            await self._try(record)

    async def _try(self, record: PodRecord) -> None:
        async with record.starting:
            for spec, init in record.spec.in_start_order():
                if record.containers[spec.name].state is not ContainerState.WAITING:
                    continue
                status = await self._started(record, spec)
                if record.phase.ended:
                    return
                waits = status.state is ContainerState.WAITING
                if init and not spec.restartable and not waits:
                    status = replace(status, state=ContainerState.TERMINATED, reason="Completed")
                record.containers[spec.name] = status
                self._parts.journal.changed()
                if init and waits:
                    return
            if record.up:
                record.phase = Phase.RUNNING
                self._parts.journal.changed()

    async def _started(self, record: PodRecord, spec: ContainerSpec) -> ContainerStatus:
        status = record.containers[spec.name]
        held = self._parts.accounts.held(record.spec.uid, spec.name)
        devices = {resource: tuple(sorted(holding.ids)) for resource, holding in held.items()}
        status = replace(status, devices=devices)
        # The kubelet walks a Go map here: which plugin's variables win is chance.
        order = self._parts.rng.sample(sorted(held), len(held))
        try:
            for resource in order:
                await self._pre_start(resource, devices[resource])
        except PluginCallError as failure:
            text = f"device plugin PreStartContainer rpc failed with err: {failure}"
            return replace(status, reason="CreateContainerConfigError", message=text)
        return started(status, spec, [held[resource].answer for resource in order])

    async def _pre_start(self, resource: str, ids: tuple[str, ...]) -> None:
        endpoint = self._parts.endpoints.get(resource)
        if endpoint is None or not endpoint.options.pre_start_required:
            return
        await endpoint.pre_start_container(
            self._parts.rng.sample(ids, len(ids)),
            timeout_seconds=self._parts.settings.prestart_seconds,
        )
