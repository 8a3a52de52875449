"""The extender's parts list: read `ExtenderDaemon.run`, then `_Parts`."""

import asyncio
import gc
import time
from collections.abc import Callable

from gpushare_plugin import __version__
from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.cluster_sources import ClusterSources
from gpushare_plugin.adapters.kube.informer import Informer
from gpushare_plugin.adapters.kube.reading import Reader, node_reader, pod_reader
from gpushare_plugin.adapters.kube.scheduling_client import SchedulingClient
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.app.cluster import annotation_prefixes
from gpushare_plugin.app.credentials import credentials
from gpushare_plugin.app.extender_succession import Help, Succession
from gpushare_plugin.config import ExtenderConfig
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import RequestError
from gpushare_plugin.extender.binding import PodBinding
from gpushare_plugin.extender.calls import Calls, Verbs
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtering
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.gate import Freshness
from gpushare_plugin.extender.inspecting import inspect
from gpushare_plugin.extender.joined_gate import JoinedGate
from gpushare_plugin.extender.listening import Listener
from gpushare_plugin.extender.pages import Pages
from gpushare_plugin.extender.preempting import Preempting
from gpushare_plugin.extender.prioritizing import Prioritizing
from gpushare_plugin.extender.server import HttpServer
from gpushare_plugin.extender.tls import Certificates
from gpushare_plugin.extender.unhealthy import UnhealthyCards
from gpushare_plugin.extender.verdicts import BindOutcome
from gpushare_plugin.extender.wire import ArgsReader, Json
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import ExtenderMetrics, ExtenderState
from gpushare_plugin.node.retrying import BackOff

log = event_logger(__name__)

NODE_ANNOTATIONS = ("gpushare.io/",)


class ExtenderDaemon:
    """The extender under one configuration."""

    def __init__(self, config: ExtenderConfig) -> None:
        self._config = config
        self._metrics = ExtenderMetrics()

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            ConfigError: the API server cannot be found, or certificate files do not work.
            ExceptionGroup: of a `ConfigError` or a `ListenError`; the extender cannot work so.
        """
        config = self._config
        async with Transport(await credentials(config.kubeconfig)) as transport:
            parts = _Parts(config, transport, self._metrics)
            self._metrics.show(parts.state)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(parts.nodes.run(), name="watch nodes")
                tasks.create_task(parts.pods.run(), name="watch pods")
                tasks.create_task(parts.unhealthy.run(), name="watch unhealthy lists")
                tasks.create_task(parts.sync(), name="wait for the first lists")
                tasks.create_task(parts.binding.run(), name="ask after binds")
                tasks.create_task(parts.succession.run(), name="find out who leads")
                tasks.create_task(parts.help.run(), name="help pods that wait")
                tasks.create_task(self._serve_calls(parts), name="serve the scheduler")
                tasks.create_task(self._serve_pages(parts), name="serve the status pages")

    async def _serve_calls(self, parts: "_Parts") -> None:
        config = self._config
        pages = Pages(
            self._metrics,
            not_ready=parts.not_ready,
            inspect=lambda node_name: inspect(parts.cluster, node_name),
        )
        server = HttpServer(pages, parts.calls, body_limit_bytes=config.body_limit_bytes)
        listener = Listener(
            config.listen_address, _certificates(config), self._metrics.certificate_failures
        )
        await server.run(listener)

    async def _serve_pages(self, parts: "_Parts") -> None:
        if self._config.status_address is None:
            return
        server = HttpServer(Pages(self._metrics, not_ready=parts.not_ready))
        listener = Listener(self._config.status_address, None, self._metrics.certificate_failures)
        await server.run(listener)


class _Parts:
    """What there is, and what each part is given."""

    def __init__(
        self, config: ExtenderConfig, transport: Transport, metrics: ExtenderMetrics
    ) -> None:
        names, clock = config.names, time.monotonic
        pods = _pod_reader(config, names)
        self.cluster = Cluster(names)
        self._metrics = metrics
        self._watch(config, transport, pods, clock)
        fits = Fits(self.cluster, names, config.policy)
        client = SchedulingClient(transport, pods=pods)
        self.succession = Succession(config, client, self.cluster, (self.nodes, self.pods), metrics)
        self.help = Help(
            config,
            transport,
            client,
            pods,
            self.cluster,
            fits,
            is_active=self.succession.is_active,
            metrics=metrics,
        )
        self.binding = PodBinding(
            self.cluster,
            fits,
            client,
            names,
            clock=clock,
            now_ns=time.time_ns,
            counted=self._count_bind,
            fence=self.succession.fence,
        )
        verbs = Verbs(
            filtering=Filtering(self.cluster, fits),
            prioritizing=Prioritizing(self.cluster, fits),
            preempting=Preempting(self.cluster, fits),
            binding=self.binding,
        )
        freshness = Freshness(
            {"nodes": self.nodes, "pods": self.pods},
            synced=lambda: self.cluster.synced,
            limit_seconds=config.stale_seconds,
        )
        self.gate = JoinedGate(freshness, self.succession.gate)
        self.calls = Calls(
            verbs,
            ArgsReader(request_pod_reader(pods)),
            self.gate,
            metrics,
            clock,
            asked=self.help.waiting.asked,
        )

    def _watch(
        self,
        config: ExtenderConfig,
        transport: Transport,
        pods: Reader[Pod],
        clock: Callable[[], float],
    ) -> None:
        sources = ClusterSources(transport)
        nodes = node_reader(
            _node_resources(config.names), annotation_prefixes=NODE_ANNOTATIONS, labels=False
        )
        self.nodes = Informer(
            sources.nodes(nodes), self.cluster.node_changed, waits=BackOff(), clock=clock
        )
        self.pods = Informer(
            sources.live_pods(pods), self.cluster.pod_changed, waits=BackOff(), clock=clock
        )
        self.unhealthy = Informer(
            sources.unhealthy_lists(config.unhealthy_configmap_namespace),
            UnhealthyCards(self.cluster).changed,
            waits=BackOff(),
            clock=clock,
        )

    async def sync(self) -> None:
        """Wait until all that was there at the start has been told."""
        begun_seconds = time.monotonic()
        await self.nodes.synced.wait()
        await self.pods.synced.wait()
        await self.unhealthy.synced.wait()
        # Reckoned before the first call, which would wait for all of them.
        self.cluster.rooms()
        self.cluster.synced = True
        # A full collection over 5,000 nodes and 20,000 pods holds up every call for 90 ms; what
        # stays is left out of it from now on, and what an earlier configuration left is not.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        log.info(
            "synced",
            nodes=len(self.nodes.items),
            pods=len(self.pods.items),
            seconds=time.monotonic() - begun_seconds,
        )

    def not_ready(self) -> tuple[str, ...]:
        """Return what is not known of the cluster yet."""
        synced = {
            "nodes": self.nodes.synced,
            "pods": self.pods.synced,
            "unhealthy lists": self.unhealthy.synced,
        }
        return tuple(
            f"{what}: not listed yet" for what, event in synced.items() if not event.is_set()
        )

    def state(self) -> ExtenderState:
        """Return what the metrics show."""
        rooms = [room for room in self.cluster.rooms().values() if room.cards]
        assumptions = dict.fromkeys(("in_flight", "confirmed", "doubtful"), 0)
        for each in self.cluster.assumptions:
            assumptions[each.state.value] += 1
        return ExtenderState(
            leads=self.gate.leads,
            generation=self.cluster.generation,
            nodes=len(rooms),
            total_units=sum(room.total_units for room in rooms),
            used_units=sum(room.used_units for room in rooms),
            pods=len(self.cluster.pods),
            assumptions=assumptions,
            stale_seconds={
                "nodes": self.nodes.stale_seconds,
                "pods": self.pods.stale_seconds,
                "unhealthy lists": self.unhealthy.stale_seconds,
            },
            build={"version": __version__},
        )

    def _count_bind(self, outcome: BindOutcome, seconds: float) -> None:
        del seconds
        self._metrics.binds.labels(outcome.value).inc()


def _certificates(config: ExtenderConfig) -> Certificates | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    return Certificates(
        certificate=config.tls_certificate, key=config.tls_key, client_ca=config.tls_client_ca
    )


def _node_resources(names: Dialect) -> list[str]:
    found = (names.memory_resource, names.core_resource, names.count_resource)
    return [name for name in found if name is not None]


def _pod_reader(config: ExtenderConfig, names: Dialect) -> Reader[Pod]:
    resources = [names.memory_resource]
    if config.counts_compute:
        resources.append(names.core_resource)
    prefixes = annotation_prefixes(names.annotations)
    return pod_reader(resources, annotation_prefixes=prefixes, asking_only=True)


def request_pod_reader(reader: Reader[Pod]) -> Callable[[Json], Pod]:
    """Return the reader of the pod that a scheduler sends."""

    def read(body: Json) -> Pod:
        try:
            return reader.read(body).item
        except wire.Garbled as error:
            raise RequestError(f"Pod: {error}") from error

    return read
