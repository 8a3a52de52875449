"""The node daemon's metrics."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpushare_plugin.metrics.counting import Metrics, gauge, info_gauge, single_gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import GaugeMetricFamily


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """One card, as the metrics show it."""

    index: int
    uuid: str
    model: str
    units: int
    allocated_units: int | None
    """None while it is not known who holds what."""
    healthy: bool
    watched: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerShare:
    """The units of one card that one container holds."""

    namespace: str
    pod: str
    container: str
    uuid: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginState:
    """How the kubelet is served one resource."""

    resource: str
    registered: bool
    list_streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """All that the gauges show, at one moment."""

    plugins: tuple[PluginState, ...]
    isolation: str
    enforced: bool
    nvml_up: bool
    gpus_left_out: int
    cards: tuple[CardState, ...] = ()
    containers: tuple[ContainerShare, ...] = ()
    unplaced_units: int | None = None
    """None while it is not known who holds what."""
    stale_seconds: Mapping[str, float] = field(default_factory=dict)
    """By what is watched: how long ago the API server last gave a sign of life."""
    build: Mapping[str, str] = field(default_factory=dict)


class NodeMetrics(Metrics):
    """The node daemon's counters and histograms."""

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        super().__init__(registry)
        self._state: Callable[[], NodeState] | None = None
        self.registrations = self.counter("registrations", "Registrations that went through.")
        self.registration_failures = self.counter(
            "registration_failures", "Registrations that failed, by cause.", "cause"
        )
        self.lives_ended = self.counter(
            "plugin_lives_ended", "Ends of a registered life of the plugin, by reason.", "reason"
        )
        self.health_changes = self.counter(
            "health_changes",
            "Changes of a card's health, by the state it came to.",
            "uuid",
            "state",
        )
        self.xids = self.counter("xids", "XIDs that the driver told.", "uuid", "xid")
        self.event_set_failures = self.counter(
            "event_set_failures", "Times that the driver's events were lost and asked for anew."
        )
        self.allocate_refusals = self.counter(
            "allocate_refusals", "Containers that Allocate refused, by cause.", "cause"
        )
        self.published = self.counter("published", "Writes to the API server.", "object")
        self.publish_failures = self.counter(
            "publish_failures", "Writes to the API server that failed.", "object"
        )
        self.card_record_failures = self.counter(
            "card_record_failures", "Writes of the card record in the plugin folder that failed."
        )
        self.overcommits = self.counter(
            "overcommits", "Containers put on a card without room, as their extender chose."
        )
        self.card_counts_not_followed = self.counter(
            "card_counts_not_followed",
            "Containers served on one card though their pod asks for several, by cause.",
            "cause",
        )
        self.pod_lookups = self.counter(
            "pod_lookups",
            "How often the pod of a call was known, guessed, none, unclear, or failed.",
            "answer",
        )
        self.allocate_seconds = self.histogram("allocate_seconds", "Time of an Allocate call.")
        self.preferred_seconds = self.histogram(
            "preferred_allocation_seconds", "Time of a GetPreferredAllocation call."
        )

    def show(self, state: Callable[[], NodeState]) -> None:
        """Compute the gauges from this state at each scrape."""
        self._state = state

    def gauges(self) -> Iterator["Metric"]:
        """Yield the gauges, once there is a state to compute them from."""
        if self._state is not None:
            yield from _gauges(self._state())


def _gauges(state: NodeState) -> Iterator["GaugeMetricFamily"]:
    yield info_gauge("build_info", "Version of the daemon.", state.build)
    yield info_gauge(
        "isolation_info",
        "What keeps containers inside their share; enforced=false is advice only.",
        {"isolation": state.isolation, "enforced": str(state.enforced).lower()},
    )
    yield single_gauge("nvml_up", "1 while NVML answers.", state.nvml_up)
    yield from _plugins(state)
    yield single_gauge("gpus_left_out", "GPUs that cannot be shared.", state.gpus_left_out)
    yield from _cards(state)
    yield _containers(state)
    if state.unplaced_units is not None:
        meaning = "Units of the original's plugin of which nothing tells the card."
        yield single_gauge("unplaced_units", meaning, state.unplaced_units)
    if state.stale_seconds:
        yield _stale(state.stale_seconds)


def _plugins(state: NodeState) -> Iterator["GaugeMetricFamily"]:
    registered = gauge("registered", "1 while registered with an open stream.", "resource")
    streams = gauge("list_streams", "ListAndWatch streams that are open.", "resource")
    for plugin in state.plugins:
        registered.add_metric((plugin.resource,), plugin.registered)
        streams.add_metric((plugin.resource,), plugin.list_streams)
    yield from (registered, streams)


def _cards(state: NodeState) -> Iterator["GaugeMetricFamily"]:
    labels = ("uuid", "index", "model")
    units = gauge("card_units", "Memory units of a card.", *labels)
    allocated = gauge("card_allocated_units", "Units that containers hold.", *labels)
    healthy = gauge("card_healthy", "1 if the card is healthy.", *labels)
    watched = gauge("card_watched", "1 if the card tells its events.", *labels)
    for card in state.cards:
        key = (card.uuid, str(card.index), card.model)
        units.add_metric(key, card.units)
        if card.allocated_units is not None:
            allocated.add_metric(key, card.allocated_units)
        healthy.add_metric(key, card.healthy)
        watched.add_metric(key, card.watched)
    yield from (units, allocated, healthy, watched)


def _stale(stale_seconds: Mapping[str, float]) -> "GaugeMetricFamily":
    family = gauge(
        "watch_stale_seconds",
        "Time since the API server last gave a sign of life; a minute is usual.",
        "what",
    )
    for what, seconds in stale_seconds.items():
        family.add_metric((what,), seconds)
    return family


def _containers(state: NodeState) -> "GaugeMetricFamily":
    family = gauge(
        "container_units",
        "Units of a card that a container holds.",
        "namespace",
        "pod",
        "container",
        "uuid",
    )
    for share in state.containers:
        family.add_metric((share.namespace, share.pod, share.container, share.uuid), share.units)
    return family
