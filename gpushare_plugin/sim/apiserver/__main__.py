"""A simulated API server as a process of its own, driven over its control socket.

Prints one line with its address once it is up. Serves until SIGTERM or SIGINT;
whatever ends it, its objects end with it.
"""

import asyncio
import sys
from collections.abc import Sequence

from gpushare_plugin.sim.apiserver.apiserver import SimApiServer
from gpushare_plugin.sim.apiserver.control import ControlServer
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings
from gpushare_plugin.sim.peer_process import read_arguments, serve_until_signalled

READY_LINE = "the simulated API server is up at"


def main(arguments: Sequence[str]) -> None:
    """Run it with these arguments until told to stop."""
    prog = "python -m gpushare_plugin.sim.apiserver"
    settings, control_socket = read_arguments(ApiServerSettings, prog, arguments)
    peer = SimApiServer(settings)
    control = ControlServer(peer, control_socket)
    asyncio.run(serve_until_signalled(peer, control, ready_line=READY_LINE + " {}"))


if __name__ == "__main__":
    main(sys.argv[1:])
