"""The verbs of a `SimKubelet` on a control socket; its wire is `sim.control_socket`."""

from pathlib import Path

from gpushare_plugin.sim import control_socket
from gpushare_plugin.sim.kubelet.failures import SimKubeletError
from gpushare_plugin.sim.kubelet.kubelet import SimKubelet

VERBS = (
    "start",
    "stop",
    "restart",
    "reboot",
    "admit",
    "delete_pod",
    "finish_pod",
    "restart_container",
    "set_faults",
    "drop_stream",
    "state",
    "newer_state",
    "registered",
    "allocatable",
    "capacity",
    "pod_in_phase",
)


class ControlServer(control_socket.ControlServer):
    """Serves one kubelet's verbs on a socket."""

    def __init__(self, kubelet: SimKubelet, path: Path) -> None:
        super().__init__(kubelet, path, verbs=VERBS, failures=SimKubeletError)
