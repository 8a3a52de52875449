"""A simulated kube-scheduler: a real HTTP client of an API server and of scheduler extenders.

Use it in process (`async with SimScheduler(settings) as scheduler:`), or as a process of its
own (`python -m gpushare_plugin.sim.scheduler`) that a `SchedulerControl` drives. What it does
is what kube-scheduler 1.36 does with one profile, the few filters named in `filters` and any
number of extenders; what is left out says so where it would stand.

It must not know the extender that it is the peer of: neither its code nor its names.
Where to start reading: `attempts` (one attempt at a pod), then `cycle`, `extender_client` and
`scheduling_queue`; `scheduler` puts the parts together.
"""

from gpushare_plugin.sim.scheduler.control import ControlServer
from gpushare_plugin.sim.scheduler.control_client import SchedulerControl
from gpushare_plugin.sim.scheduler.failures import (
    ConfigurationError,
    ControlError,
    SimSchedulerError,
    WaitExpiredError,
)
from gpushare_plugin.sim.scheduler.scheduler import SimScheduler
from gpushare_plugin.sim.scheduler.settings import SchedulerSettings
from gpushare_plugin.sim.scheduler.states import (
    ExtenderCall,
    Outcome,
    QueuedPodState,
    Result,
    SchedulerState,
)

__all__ = [
    "ConfigurationError",
    "ControlError",
    "ControlServer",
    "ExtenderCall",
    "Outcome",
    "QueuedPodState",
    "Result",
    "SchedulerControl",
    "SchedulerSettings",
    "SchedulerState",
    "SimScheduler",
    "SimSchedulerError",
    "WaitExpiredError",
]
