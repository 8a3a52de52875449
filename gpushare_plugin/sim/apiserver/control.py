"""The verbs of a `SimApiServer` on a control socket; its wire is `sim.control_socket`."""

from pathlib import Path

from gpushare_plugin.sim import control_socket
from gpushare_plugin.sim.apiserver.apiserver import SimApiServer
from gpushare_plugin.sim.apiserver.failures import SimApiServerError

VERBS = (
    "go_away",
    "come_back",
    "compact",
    "create",
    "create_many",
    "replace",
    "patch",
    "delete",
    "set_pod_phase",
    "terminate_pod",
    "finish_termination",
    "inject",
    "lift",
    "lift_all",
    "silence_watches",
    "cut_watches",
    "set_access",
    "get",
    "objects",
    "calls",
    "state",
    "kubeconfig",
    "newer_state",
    "gone",
    "watched",
    "called",
)


class ControlServer(control_socket.ControlServer):
    """Serves one API server's verbs on a socket."""

    def __init__(self, server: SimApiServer, path: Path) -> None:
        super().__init__(server, path, verbs=VERBS, failures=SimApiServerError)
