"""The simulated scheduler that tests, the demo and benchmarks drive.

Rule 1: everything that can be done to it from outside is one method here or in `looking`, and
the same verb on the control socket. Acting is awaited, looking is not.
Rule 2: it schedules while it is not paused, knows the cluster and, with leader election,
leads; its watches run all the time.
"""

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from gpushare_plugin.sim.scheduler.api_client import ApiClient
from gpushare_plugin.sim.scheduler.attempts import Attempts, Parts
from gpushare_plugin.sim.scheduler.cluster import Cluster
from gpushare_plugin.sim.scheduler.configuration import Configuration, read_configuration
from gpushare_plugin.sim.scheduler.cycle import SchedulingCycle
from gpushare_plugin.sim.scheduler.extender_client import HttpExtender
from gpushare_plugin.sim.scheduler.informing import (
    NODES_PATH,
    PODS_PATH,
    PODS_SELECTOR,
    Informing,
)
from gpushare_plugin.sim.scheduler.journal import Journal
from gpushare_plugin.sim.scheduler.kubeconfig import read_kubeconfig
from gpushare_plugin.sim.scheduler.leadership import LeaderElector
from gpushare_plugin.sim.scheduler.looking import Looking, Standing
from gpushare_plugin.sim.scheduler.objects import node_info, pod_info
from gpushare_plugin.sim.scheduler.preempting import Preempting
from gpushare_plugin.sim.scheduler.reflector import Reflector, Resource
from gpushare_plugin.sim.scheduler.reporting import Reporter
from gpushare_plugin.sim.scheduler.scheduling_queue import QueueRules, SchedulingQueue
from gpushare_plugin.sim.scheduler.settings import SchedulerSettings


class SimScheduler(Looking):
    """A scheduler as its cluster and its extenders meet it."""

    def __init__(self, settings: SchedulerSettings) -> None:
        """Raises ConfigurationError for a file that cannot be used."""
        self.configuration = read_configuration(settings.config)
        journal = Journal(call_log_entries=settings.call_log_entries)
        self._chance = random.Random(settings.seed)  # noqa: S311 - ties, not secrets
        parts = _parts(settings, self.configuration, journal, self._chance)
        super().__init__(settings, parts, Attempts(parts), Standing())
        self._main: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._main = asyncio.create_task(self._run(), name="simulated scheduler")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._main is not None:
            self._main.cancel()
            with suppress(asyncio.CancelledError):
                await self._main

    async def pause(self) -> None:
        """Begin no further cycle; what is under way goes on."""
        self._standing.paused = True
        self._open_or_close()

    async def resume(self) -> None:
        """Schedule again."""
        self._standing.paused = False
        self._open_or_close()

    # -------------------------------------------------------------------------- inside

    async def _run(self) -> None:
        parts = self._parts
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(parts.api)
            for extender in parts.extenders:
                await stack.enter_async_context(extender)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(parts.reporter.run(), name="reports")
                tasks.create_task(self._elect(), name="election")
                tasks.create_task(self._watch(tasks), name="watches")
                tasks.create_task(self._attempts.run(tasks.create_task), name="cycles")

    async def _watch(self, tasks: asyncio.TaskGroup) -> None:
        parts, retry = self._parts, self._settings.watch_retry_seconds
        name = self.configuration.scheduler_name
        told = Informing(parts.cluster, parts.queue, scheduler_name=name)
        nodes = Reflector(
            parts.api,
            Resource(path=NODES_PATH, read=node_info, told=told.node_changed),
            retry_seconds=retry,
            chance=self._chance,
        )
        pods = Reflector(
            parts.api,
            Resource(
                path=PODS_PATH,
                read=pod_info,
                told=told.pod_changed,
                field_selector=PODS_SELECTOR,
            ),
            retry_seconds=retry,
            chance=self._chance,
        )
        tasks.create_task(nodes.run(), name="nodes")
        await nodes.synced.wait()
        tasks.create_task(pods.run(), name="pods")
        await pods.synced.wait()
        self._standing.synced = True
        self._open_or_close()

    async def _elect(self) -> None:
        election = self.configuration.election
        if not election.leader_elect:
            self._lead(leads=True)
            return
        elector = LeaderElector(
            self._parts.api,
            election,
            identity=self._settings.identity,
            chance=random.Random(),  # noqa: S311 - two with one seed must not move in step
            told=lambda leads: self._lead(leads=leads),
        )
        await elector.run()

    def _lead(self, *, leads: bool) -> None:
        self._standing.leads = leads
        self._open_or_close()

    def _open_or_close(self) -> None:
        standing = self._standing
        self._parts.queue.set_open(standing.synced and standing.leads and not standing.paused)


def _parts(
    settings: SchedulerSettings,
    configuration: Configuration,
    journal: Journal,
    chance: random.Random,
) -> Parts:
    api = ApiClient(read_kubeconfig(settings.kubeconfig))
    cluster = Cluster()
    extenders = tuple(
        HttpExtender(each, journal, body_log_bytes=settings.body_log_bytes)
        for each in configuration.extenders
    )
    reporter = Reporter(
        api,
        scheduler_name=configuration.scheduler_name,
        identity=settings.identity,
        changed=journal.changed,
    )
    cycle = SchedulingCycle(cluster, configuration, extenders, chance=chance)
    rules = QueueRules(
        initial_backoff_seconds=configuration.initial_backoff_seconds * settings.backoff_scale,
        max_backoff_seconds=configuration.max_backoff_seconds * settings.backoff_scale,
        unschedulable_seconds=settings.unschedulable_seconds,
        pop_from_backoff=settings.pop_from_backoff,
        requeue_on_delete=settings.requeue_on_delete,
    )
    return Parts(
        cluster=cluster,
        queue=SchedulingQueue(
            rules, clock=lambda: asyncio.get_running_loop().time(), changed=journal.changed
        ),
        cycle=cycle,
        preempting=Preempting(
            cycle,
            api,
            reporter,
            chance=chance,
            preempt_without_victims=settings.preempt_without_victims,
        ),
        extenders=extenders,
        api=api,
        reporter=reporter,
        journal=journal,
    )
