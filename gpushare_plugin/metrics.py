"""Every metric's name, help and labels: the one importer of prometheus_client.

Rule 1: what is a state is computed at scrape time from the state itself, so it
cannot go stale; what is an event is counted where it happens.
Rule 2: the registry is passed in; there is no global one.
Rule 3: a value that is not known is left out, never put as a number.
Rule 4: counting needs no prometheus_client. It is imported when somebody first asks:
its import is a tenth of the daemon's way to being registered.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import GaugeMetricFamily

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


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
    build: Mapping[str, str] = field(default_factory=dict)


class Count:
    """Counts events, apart by the values of its labels; each is counted in one thread."""

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...]) -> None:
        self._name = name
        self._meaning = meaning
        self._labelnames = labels
        # Without labels there is one number, 0 until something happens; else none.
        self._numbers: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def inc(self) -> None:
        """Count an event."""
        self.labels().inc()

    def labels(self, *values: str) -> "LabelledCount":
        """Return the count of the events with these values, in the labels' order."""
        return LabelledCount(self._numbers, values)

    def family(self) -> "Metric":
        """Return it as Prometheus shows it."""
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415  # rule 4

        family = CounterMetricFamily(self._name, self._meaning, labels=self._labelnames)
        for values, number in self._numbers.items():
            family.add_metric(values, number)
        return family


class LabelledCount:
    """One number of a `Count`."""

    __slots__ = ("_numbers", "_values")

    def __init__(self, numbers: dict[tuple[str, ...], int], values: tuple[str, ...]) -> None:
        self._numbers = numbers
        self._values = values

    def inc(self) -> None:
        """Count an event."""
        self._numbers[self._values] = self._numbers.get(self._values, 0) + 1


class Durations:
    """Counts durations by how long they were."""

    def __init__(self, name: str, meaning: str) -> None:
        self._name = name
        self._meaning = meaning
        self._labelnames = ()
        self._numbers = [0] * (len(_SECONDS) + 1)
        self._sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._numbers[bisect_left(_SECONDS, seconds)] += 1
        self._sum_seconds += seconds

    def family(self) -> "Metric":
        """Return it as Prometheus shows it."""
        from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415  # rule 4

        limits = [*(str(seconds) for seconds in _SECONDS), "+Inf"]
        buckets = list(zip(limits, accumulate(self._numbers), strict=True))
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labelnames)
        family.add_metric((), buckets, self._sum_seconds)
        return family


class NodeMetrics:
    """The node daemon's counters and histograms."""

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        self._given_registry = registry
        self._events: list[Count | Durations] = []
        self._state: Callable[[], NodeState] | None = None
        self.registrations = self._counter("registrations", "Registrations that went through.")
        self.registration_failures = self._counter(
            "registration_failures", "Registrations that failed, by cause.", "cause"
        )
        self.lives_ended = self._counter(
            "plugin_lives_ended", "Ends of a registered life of the plugin, by reason.", "reason"
        )
        self.health_changes = self._counter(
            "health_changes",
            "Changes of a card's health, by the state it came to.",
            "uuid",
            "state",
        )
        self.xids = self._counter("xids", "XIDs that the driver told.", "uuid", "xid")
        self.event_set_failures = self._counter(
            "event_set_failures", "Times that the driver's events were lost and asked for anew."
        )
        self.allocate_refusals = self._counter(
            "allocate_refusals", "Containers that Allocate refused, by cause.", "cause"
        )
        self.published = self._counter("published", "Writes to the API server.", "object")
        self.publish_failures = self._counter(
            "publish_failures", "Writes to the API server that failed.", "object"
        )
        self.overcommits = self._counter(
            "overcommits", "Containers put on a card without room, as their extender chose."
        )
        self.pod_lookups = self._counter(
            "pod_lookups",
            "How often the pod of a call was known, none, unclear, or failed.",
            "answer",
        )
        self.allocate_seconds = self._histogram("allocate_seconds", "Time of an Allocate call.")
        self.preferred_seconds = self._histogram(
            "preferred_allocation_seconds", "Time of a GetPreferredAllocation call."
        )

    def show(self, state: Callable[[], NodeState]) -> None:
        """Compute the gauges from this state at each scrape."""
        self._state = state

    @cached_property
    def registry(self) -> "CollectorRegistry":
        """The registry that all of this is in."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415  # rule 4

        registry = self._given_registry or CollectorRegistry()
        registry.register(self)
        return registry

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        from prometheus_client.exposition import generate_latest  # noqa: PLC0415  # rule 4

        return generate_latest(self.registry)

    def collect(self) -> Iterator["Metric"]:
        """Yield every metric as it is now; the registry asks."""
        for each in self._events:
            yield each.family()
        if self._state is not None:
            yield from _gauges(self._state())

    def _counter(self, name: str, meaning: str, *labels: str) -> Count:
        count = Count(f"gpushare_{name}", meaning, labels)
        self._events.append(count)
        return count

    def _histogram(self, name: str, meaning: str) -> Durations:
        durations = Durations(f"gpushare_{name}", meaning)
        self._events.append(durations)
        return durations


def _gauges(state: NodeState) -> Iterator["GaugeMetricFamily"]:
    yield _info("build_info", "Version of the daemon.", state.build)
    yield _info(
        "isolation_info",
        "What keeps containers inside their share; enforced=false is advice only.",
        {"isolation": state.isolation, "enforced": str(state.enforced).lower()},
    )
    yield _one("nvml_up", "1 while NVML answers.", state.nvml_up)
    yield from _plugins(state)
    yield _one("gpus_left_out", "GPUs that cannot be shared.", state.gpus_left_out)
    yield from _cards(state)
    yield _containers(state)


def _plugins(state: NodeState) -> Iterator["GaugeMetricFamily"]:
    registered = _family("registered", "1 while registered with an open stream.", "resource")
    streams = _family("list_streams", "ListAndWatch streams that are open.", "resource")
    for plugin in state.plugins:
        registered.add_metric((plugin.resource,), plugin.registered)
        streams.add_metric((plugin.resource,), plugin.list_streams)
    yield from (registered, streams)


def _cards(state: NodeState) -> Iterator["GaugeMetricFamily"]:
    labels = ("uuid", "index", "model")
    units = _family("card_units", "Memory units of a card.", *labels)
    allocated = _family("card_allocated_units", "Units that containers hold.", *labels)
    healthy = _family("card_healthy", "1 if the card is healthy.", *labels)
    watched = _family("card_watched", "1 if the card tells its events.", *labels)
    for card in state.cards:
        key = (card.uuid, str(card.index), card.model)
        units.add_metric(key, card.units)
        if card.allocated_units is not None:
            allocated.add_metric(key, card.allocated_units)
        healthy.add_metric(key, card.healthy)
        watched.add_metric(key, card.watched)
    yield from (units, allocated, healthy, watched)


def _containers(state: NodeState) -> "GaugeMetricFamily":
    family = _family(
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


def _family(name: str, meaning: str, *labels: str) -> "GaugeMetricFamily":
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415  # rule 4

    return GaugeMetricFamily(f"gpushare_{name}", meaning, labels=labels)


def _one(name: str, meaning: str, value: float) -> "GaugeMetricFamily":
    family = _family(name, meaning)
    family.add_metric((), value)
    return family


def _info(name: str, meaning: str, labels: Mapping[str, str]) -> "GaugeMetricFamily":
    family = _family(name, meaning, *labels)
    family.add_metric(tuple(labels.values()), 1)
    return family
