"""Who of several extenders may answer, and what is done for pods that wait: the parts list."""

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime

from gpushare_plugin.adapters.kube.client import KubeClient
from gpushare_plugin.adapters.kube.informer import Informer
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.recorder import EventRecorder
from gpushare_plugin.adapters.kube.scheduling_client import SchedulingClient
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.config import ExtenderConfig
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiError
from gpushare_plugin.extender.assumptions import State
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.gate import Gate
from gpushare_plugin.extender.handover import Handover
from gpushare_plugin.extender.leader_label import LeaderLabel
from gpushare_plugin.extender.leadership import Leadership
from gpushare_plugin.extender.lease_holding import Candidate, LeaseHolding
from gpushare_plugin.extender.nudge import Nudging
from gpushare_plugin.extender.posting import Fence
from gpushare_plugin.extender.unplaced import Unplaced
from gpushare_plugin.extender.waiting import WaitingPods
from gpushare_plugin.metrics import ExtenderMetrics
from gpushare_plugin.ports.cluster import Node

IsActive = Callable[[], Awaitable[bool]]


class Succession:
    """The shared way where `--leader-elect` is on, else the sidecar way.

    Attributes:
        gate: says whether we may answer, as far as others are concerned.
        fence: says whether we may write.
        is_active: says whether it is us whom the scheduler asks.
    """

    def __init__(
        self,
        config: ExtenderConfig,
        client: SchedulingClient,
        cluster: Cluster,
        pictures: tuple[Informer[Node], Informer[Pod]],
        metrics: ExtenderMetrics,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._nodes, self._pods = pictures
        self._metrics = metrics
        self._leadership: Leadership | None = None
        self._label: LeaderLabel | None = None
        self.gate: Gate
        self.fence: Fence
        self.is_active: IsActive
        if config.leader_elect and config.pod_name and config.pod_namespace:
            self._elect(config, config.pod_namespace, config.pod_name)
        else:
            self._follow_the_scheduler(config)

    async def run(self) -> None:
        """Stand for election until cancelled, once we know the cluster; or do nothing."""
        if self._leadership is None or self._label is None:
            return
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._leadership.run(), name="stand for election")
            tasks.create_task(self._label.run(), name="label who leads")

    def _elect(self, config: ExtenderConfig, namespace: str, pod_name: str) -> None:
        candidate = Candidate(
            namespace=config.lease[0],
            lease_name=config.lease[1],
            identity=f"{pod_name}_{secrets.token_hex(8)}",
        )
        holding = LeaseHolding(self._client, candidate, clock=time.monotonic, now_text=lease_time)
        leadership = Leadership(
            holding,
            draw=random.random,
            relist=self._relist_all,
            unsettled=self._unsettled,
            took_over=self._metrics.handovers.inc,
        )

        async def is_active() -> bool:
            return leadership.serves

        self._leadership = leadership
        self._label = LeaderLabel(
            self._client,
            namespace=namespace,
            pod_name=pod_name,
            leads=lambda: leadership.leads,
            clock=time.monotonic,
        )
        self.gate, self.fence, self.is_active = leadership, leadership.fence, is_active

    def _follow_the_scheduler(self, config: ExtenderConfig) -> None:
        handover = Handover(
            self._client,
            config.scheduler_lease,
            clock=time.monotonic,
            relist=self._relist_pods,
            changed=self._metrics.handovers.inc,
        )
        self.gate, self.fence, self.is_active = handover, _no_fence, handover.is_active

    async def _relist_all(self, seconds: float) -> None:
        await self._counted(
            asyncio.gather(
                self._nodes.relist(timeout_seconds=seconds),
                self._pods.relist(timeout_seconds=seconds),
            )
        )

    async def _relist_pods(self, seconds: float) -> None:
        await self._counted(self._pods.relist(timeout_seconds=seconds))

    async def _counted(self, relist: Awaitable[object]) -> None:
        try:
            await relist
        except ApiError:
            self._metrics.relists.labels("failed").inc()
            raise
        self._metrics.relists.labels("ok").inc()

    def _unsettled(self) -> bool:
        return any(each.state is not State.CONFIRMED for each in self._cluster.assumptions)


class Help:
    """What is done for pods that fit nowhere.

    Attributes:
        waiting: is to be told of each answer of filter.
    """

    def __init__(  # noqa: PLR0913 - each part stands behind a seam
        self,
        config: ExtenderConfig,
        transport: Transport,
        client: SchedulingClient,
        pods: Reader[Pod],
        cluster: Cluster,
        fits: Fits,
        *,
        is_active: IsActive,
        metrics: ExtenderMetrics,
    ) -> None:
        self.waiting = WaitingPods(cluster, clock=time.monotonic)
        self._jobs: list[Callable[[], Coroutine[None, None, None]]] = []
        if config.events:
            recorder = EventRecorder(
                KubeClient(transport, pods=pods),
                host=config.pod_name or "",
                now=lambda: datetime.now(UTC),
            )
            events = Unplaced(self.waiting, cluster, fits, recorder, clock=time.monotonic)
            self._jobs.append(events.run)
        if config.nudge:
            nudging = Nudging(
                self.waiting,
                cluster,
                fits,
                client,
                is_active=is_active,
                clock=time.monotonic,
                now_text=lease_time,
                counted=lambda result: metrics.nudges.labels(result).inc(),
            )
            self._jobs.append(nudging.run)

    async def run(self) -> None:
        """Help until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for job in self._jobs:
                tasks.create_task(job())


def lease_time() -> str:
    """Return the time of day as a Lease has it: RFC 3339 in UTC, with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _no_fence(seconds: float) -> str:
    del seconds
    return ""
