"""The extender's metrics.

Rule: no metric is by node, pod or card: a cluster has thousands of each, and the node
daemons show their own cards.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpushare_plugin.metrics.counting import Metrics, gauge, info_gauge, single_gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import GaugeMetricFamily


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderState:
    """All that the gauges show, at one moment."""

    leads: bool
    generation: int
    """Grows with each change of what is known of the cluster."""
    nodes: int
    """Nodes that share cards."""
    total_units: int
    used_units: int
    pods: int
    """Pods that ask for units, placed or waiting."""
    assumptions: Mapping[str, int]
    """Binds that the watch has not shown yet, by what is known of them."""
    stale_seconds: Mapping[str, float]
    """By what is watched: how long ago the API server last gave a sign of life."""
    build: Mapping[str, str] = field(default_factory=dict)


class ExtenderMetrics(Metrics):
    """The extender's counters and histograms."""

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        super().__init__(registry)
        self._state: Callable[[], ExtenderState] | None = None
        self.call_seconds = self.histogram(
            "extender_call_seconds", "Time of a scheduler's call, by verb.", "verb"
        )
        self.answers = self.counter(
            "extender_answers",
            "Answers to a scheduler: ok, or error with its cause in the log.",
            "verb",
            "result",
        )
        self.binds = self.counter("extender_binds", "Binds, by what became of them.", "outcome")
        self.certificate_failures = self.counter(
            "extender_certificate_failures",
            "Changed certificate files that do not work; the last good ones stay in use.",
        )

        self.handovers = self.counter(
            "extender_handovers",
            "Times that we began to lead, or that another scheduler may have been asked meanwhile.",
        )
        self.relists = self.counter(
            "extender_relists", "Lists made anew after a handover: ok or failed.", "result"
        )
        self.nudges = self.counter(
            "extender_nudges",
            "Touches of waiting pods for which there is room now: touched or failed.",
            "result",
        )

    def show(self, state: Callable[[], ExtenderState]) -> None:
        """Compute the gauges from this state at each scrape."""
        self._state = state

    def gauges(self) -> Iterator["Metric"]:
        """Yield the gauges, once there is a state to compute them from."""
        if self._state is not None:
            yield from _gauges(self._state())


def _gauges(state: ExtenderState) -> Iterator["GaugeMetricFamily"]:
    yield info_gauge("build_info", "Version of the daemon.", state.build)
    yield single_gauge("extender_leads", "1 while this one answers for its cluster.", state.leads)
    yield single_gauge(
        "extender_generation", "Changes of what is known of the cluster.", state.generation
    )
    yield single_gauge("extender_nodes", "Nodes that share cards.", state.nodes)
    yield single_gauge("extender_units", "Memory units of all nodes.", state.total_units)
    yield single_gauge("extender_used_units", "Units that pods hold or will.", state.used_units)
    yield single_gauge("extender_pods", "Pods that ask for units, placed or waiting.", state.pods)
    assumptions = gauge(
        "extender_assumptions", "Binds that the watch has not shown yet, by state.", "state"
    )
    for name, number in state.assumptions.items():
        assumptions.add_metric((name,), number)
    stale = gauge(
        "extender_watch_stale_seconds",
        "Time since the API server last gave a sign of life; a minute is usual.",
        "what",
    )
    for what, seconds in state.stale_seconds.items():
        stale.add_metric((what,), seconds)
    yield from (assumptions, stale)
