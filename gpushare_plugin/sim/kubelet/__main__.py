"""A simulated kubelet as a process of its own, driven over its control socket.

Serves until SIGTERM or SIGINT. A SIGKILL leaves what a killed kubelet leaves;
started again it knows who holds devices, from the checkpoint, but no pods.
"""

import asyncio
import sys
from collections.abc import Sequence

from gpushare_plugin.sim.kubelet.control import ControlServer
from gpushare_plugin.sim.kubelet.kubelet import SimKubelet
from gpushare_plugin.sim.kubelet.settings import KubeletSettings
from gpushare_plugin.sim.peer_process import read_arguments, serve_until_signalled

READY_LINE = "the simulated kubelet is up"


def main(arguments: Sequence[str]) -> None:
    """Run it with these arguments until told to stop."""
    prog = "python -m gpushare_plugin.sim.kubelet"
    settings, control_socket = read_arguments(KubeletSettings, prog, arguments)
    peer = SimKubelet(settings)
    control = ControlServer(peer, control_socket)
    asyncio.run(serve_until_signalled(peer, control, ready_line=READY_LINE))


if __name__ == "__main__":
    main(sys.argv[1:])
