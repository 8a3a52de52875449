"""The verbs of a `SimScheduler` on a control socket; its wire is `sim.control_socket`."""

from pathlib import Path

from gpushare_plugin.sim import control_socket
from gpushare_plugin.sim.scheduler.failures import SimSchedulerError
from gpushare_plugin.sim.scheduler.scheduler import SimScheduler

VERBS = (
    "pause",
    "resume",
    "state",
    "calls",
    "newer_state",
    "leading",
    "idle",
    "attempted",
)


class ControlServer(control_socket.ControlServer):
    """Serves one scheduler's verbs on a socket."""

    def __init__(self, scheduler: SimScheduler, path: Path) -> None:
        super().__init__(scheduler, path, verbs=VERBS, failures=SimSchedulerError)
