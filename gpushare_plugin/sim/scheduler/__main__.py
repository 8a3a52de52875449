"""A simulated scheduler as a process of its own, driven over its control socket.

Prints one line once it runs. Schedules until SIGTERM or SIGINT; then it gives its lease back.
"""

import asyncio
import sys
from collections.abc import Sequence

from gpushare_plugin.sim.peer_process import read_arguments, serve_until_signalled
from gpushare_plugin.sim.scheduler.control import ControlServer
from gpushare_plugin.sim.scheduler.failures import ConfigurationError
from gpushare_plugin.sim.scheduler.scheduler import SimScheduler
from gpushare_plugin.sim.scheduler.settings import SchedulerSettings

READY_LINE = "the simulated scheduler is up"


def main(arguments: Sequence[str]) -> None:
    """Run it with these arguments until told to stop."""
    prog = "python -m gpushare_plugin.sim.scheduler"
    settings, control_socket = read_arguments(SchedulerSettings, prog, arguments)
    try:
        peer = SimScheduler(settings)
        control = ControlServer(peer, control_socket)
        asyncio.run(serve_until_signalled(peer, control, ready_line=READY_LINE))
    except ConfigurationError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
