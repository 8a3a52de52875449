"""What is counted where it happens, and how a scrape shows it. Knows no metric's name."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import GaugeMetricFamily

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


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
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415  # rule 4 of the package

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

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...]) -> None:
        self._name = name
        self._meaning = meaning
        self._labelnames = labels
        self._numbers: dict[tuple[str, ...], list[int]] = {} if labels else {(): _none_yet()}
        self._sum_seconds: dict[tuple[str, ...], float] = {}

    def observe(self, seconds: float, *values: str) -> None:
        """Count a duration, with the values of the labels in their order."""
        self._numbers.setdefault(values, _none_yet())[bisect_left(_SECONDS, seconds)] += 1
        self._sum_seconds[values] = self._sum_seconds.get(values, 0.0) + seconds

    def family(self) -> "Metric":
        """Return it as Prometheus shows it."""
        from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415  # rule 4 of the package

        limits = [*(str(seconds) for seconds in _SECONDS), "+Inf"]
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labelnames)
        for values, numbers in self._numbers.items():
            buckets = list(zip(limits, accumulate(numbers), strict=True))
            family.add_metric(values, buckets, self._sum_seconds.get(values, 0.0))
        return family


def _none_yet() -> list[int]:
    return [0] * (len(_SECONDS) + 1)


class Metrics:
    """The counters and histograms of one daemon, and their exposition."""

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        self._given_registry = registry
        self._events: list[Count | Durations] = []

    @cached_property
    def registry(self) -> "CollectorRegistry":
        """The registry that all of this is in."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415  # rule 4 of the package

        registry = self._given_registry or CollectorRegistry()
        registry.register(self)
        return registry

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        from prometheus_client.exposition import generate_latest  # noqa: PLC0415  # rule 4 of the package

        return generate_latest(self.registry)

    def gauges(self) -> Iterator["Metric"]:
        """Yield what is a state, as it is now."""
        yield from ()

    def collect(self) -> Iterator["Metric"]:
        """Yield every metric as it is now; the registry asks."""
        for each in self._events:
            yield each.family()
        yield from self.gauges()

    def counter(self, name: str, meaning: str, *labels: str) -> Count:
        """Return a new counter of one of our events."""
        count = Count(f"gpushare_{name}", meaning, labels)
        self._events.append(count)
        return count

    def histogram(self, name: str, meaning: str, *labels: str) -> Durations:
        """Return a new histogram of seconds."""
        durations = Durations(f"gpushare_{name}", meaning, labels)
        self._events.append(durations)
        return durations


def gauge(name: str, meaning: str, *labels: str) -> "GaugeMetricFamily":
    """Return a new gauge, still without a value."""
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415  # rule 4 of the package

    return GaugeMetricFamily(f"gpushare_{name}", meaning, labels=labels)


def single_gauge(name: str, meaning: str, value: float) -> "GaugeMetricFamily":
    """Return a gauge of one value."""
    family = gauge(name, meaning)
    family.add_metric((), value)
    return family


def info_gauge(name: str, meaning: str, labels: Mapping[str, str]) -> "GaugeMetricFamily":
    """Return a gauge that is 1, and says something by its labels."""
    family = gauge(name, meaning, *labels)
    family.add_metric(tuple(labels.values()), 1)
    return family
