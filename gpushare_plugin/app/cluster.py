"""The node daemon's side towards the API server.

Rule: everything here may be late, or away: the kubelet is served without it, and what
was to be written is written later.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from gpushare_plugin.app.aiohttp_import import import_aiohttp
from gpushare_plugin.app.credentials import credentials
from gpushare_plugin.app.serving import NodeParts
from gpushare_plugin.config import NodeConfig
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.dialect import PodAnnotationNames
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.node_record import CardLink
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.node.node_publisher import NodePublisher, NodeRecordRule
from gpushare_plugin.node.occurrences import Occurrences
from gpushare_plugin.node.pod_publisher import PodPublisher
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.tellings import Tellings
from gpushare_plugin.ports.cluster import Change, Node, Upserted

BAD_NEWS_SECONDS = 1.0
"""How long the kubelet waits for the annotation to say first that a card fell ill."""
GOOD_NEWS_SECONDS = 0.2
"""How long the annotation waits for the kubelet to be told first that a card is well."""


class ClusterSide:
    """What the API server tells us, and what we tell it."""

    def __init__(
        self,
        config: NodeConfig,
        parts: NodeParts,
        *,
        isolation: Callable[[], str | None],
        links: Callable[[], tuple[CardLink, ...]],
        node_changed: Callable[[Node], None],
    ) -> None:
        self._config = config
        self._names = config.names
        self._parts = parts
        self._node_changed = node_changed
        self._node_name = config.node_name or ""
        self._occurrences = Occurrences()
        self.tellings = Tellings(self._occurrences)
        self._pods = PodPublisher(
            parts.specs, parts.admission, parts.inventory, self._names, parts.metrics
        )
        rule = NodeRecordRule(names=self._names, unit_mib=config.memory_unit)
        self._node = NodePublisher(parts.inventory, rule, parts.metrics, isolation, links)
        self._stale: Callable[[], Mapping[str, float]] = dict
        self.node_known = asyncio.Event()
        """Set once the node object has been read."""
        if not config.without_cluster:
            parts.specs.watching = True
            parts.specs.on_change(self._pods.wake)
            parts.admission.on_account(self._pods.wake)
            parts.inventory.on_health(self._health_changed)

    @property
    def stale_seconds(self) -> Mapping[str, float]:
        """By what is watched: how long ago the API server last gave a sign of life."""
        return self._stale()

    async def before_bad_news(self) -> None:
        """Return once the node's annotation says what is wrong, or nearly at once without it."""
        if not self._config.without_cluster:
            await self._node.written(timeout_seconds=BAD_NEWS_SECONDS)

    async def run(self) -> None:
        """Watch and write until cancelled."""
        if self._config.without_cluster:
            return
        import_aiohttp()
        from gpushare_plugin.adapters.kube.client import KubeClient  # noqa: PLC0415  # 150 ms
        from gpushare_plugin.adapters.kube.informer import Informer  # noqa: PLC0415
        from gpushare_plugin.adapters.kube.reading import pod_reader  # noqa: PLC0415
        from gpushare_plugin.adapters.kube.recorder import EventRecorder  # noqa: PLC0415
        from gpushare_plugin.adapters.kube.sources import (  # noqa: PLC0415
            NodeSource,
            PodSource,
            live_pods_of,
        )
        from gpushare_plugin.adapters.kube.transport import Transport  # noqa: PLC0415

        async with Transport(await credentials(self._config.kubeconfig)) as transport:
            reader = pod_reader(
                [self._names.memory_resource, self._names.core_resource],
                annotation_prefixes=annotation_prefixes(self._names.annotations),
            )
            client = KubeClient(transport, pods=reader)
            recorder = EventRecorder(client, host=self._node_name, now=lambda: datetime.now(UTC))
            pods = PodSource(
                client, field_selector=live_pods_of(self._node_name), first_from_cache=True
            )
            node = NodeSource(client, self._node_name)
            clock = time.monotonic
            watch_pods = Informer(pods, self._pod_changed, waits=BackOff(), clock=clock)
            watch_node = Informer(node, self._node_told, waits=BackOff(), clock=clock)
            self._stale = lambda: {
                "pods": watch_pods.stale_seconds,
                "node": watch_node.stale_seconds,
            }
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watch_pods.run(), name="watch this node's pods")
                tasks.create_task(watch_node.run(), name="watch this node")
                tasks.create_task(self._pods.run(client), name="publish pods")
                tasks.create_task(self._node.run(client), name="publish the node")
                tasks.create_task(self._occurrences.write(recorder), name="write events")

    def wake(self) -> None:
        """Compare the node's record again: cards or isolation have changed."""
        self._node.wake()

    def _pod_changed(self, change: Change[Pod]) -> None:
        if isinstance(change, Upserted):
            self._parts.specs.put(change.item)
        else:
            self._parts.specs.remove(change.item)

    def _node_told(self, change: Change[Node]) -> None:
        if isinstance(change, Upserted):
            self.tellings.know_node(change.item)
            self._node.put(change.item)
            self._node_changed(change.item)
            self.node_known.set()

    def _health_changed(self, card: Card, health: CardHealth) -> None:
        self.tellings.health(card, health)
        if health.state is State.UNHEALTHY:
            self._node.wake()
        else:
            asyncio.get_running_loop().call_later(GOOD_NEWS_SECONDS, self._node.wake)


async def first_node(side: ClusterSide, *, timeout_seconds: float) -> None:
    """Wait for the node object, which says which index each card has; but not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            await side.node_known.wait()


def annotation_prefixes(names: PodAnnotationNames) -> tuple[str, ...]:
    """Return what the pod annotations that we read begin with."""
    of_dialect = (
        names.assigned,
        names.assume_time,
        names.card_index,
        names.pod_units,
        names.card_units,
        (names.container_card_index or "").removesuffix("{}"),
        names.node,
    )
    ours = ("gpushare.io/", "scheduler.framework.gpushare.")
    return (*ours, *(key for key in of_dialect if key))
