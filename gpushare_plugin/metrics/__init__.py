"""Every metric's name, help and labels: the one importer of prometheus_client.

Rule 1: what is a state is computed at scrape time from the state itself, so it
cannot go stale; what is an event is counted where it happens.
Rule 2: the registry is passed in; there is no global one.
Rule 3: a value that is not known is left out, never put as a number.
Rule 4: counting needs no prometheus_client. It is imported when somebody first asks:
its import is a tenth of the daemon's way to being registered.
"""

from gpushare_plugin.metrics.counting import CONTENT_TYPE, Count, Durations, LabelledCount, Metrics
from gpushare_plugin.metrics.extender import ExtenderMetrics, ExtenderState
from gpushare_plugin.metrics.node import (
    CardState,
    ContainerShare,
    NodeMetrics,
    NodeState,
    PluginState,
)

__all__ = [
    "CONTENT_TYPE",
    "CardState",
    "ContainerShare",
    "Count",
    "Durations",
    "ExtenderMetrics",
    "ExtenderState",
    "LabelledCount",
    "Metrics",
    "NodeMetrics",
    "NodeState",
    "PluginState",
]
