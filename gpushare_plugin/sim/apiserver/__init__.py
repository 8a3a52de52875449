"""A simulated Kubernetes API server: a real HTTP peer on the loopback interface.

Use it in process (`async with SimApiServer() as server:`), or as a process of its
own (`python -m gpushare_plugin.sim.apiserver`) that an `ApiServerControl` drives.
What it answers is what API server 1.36 answers, wording included; faults on request.

It must not know the programs it is the peer of: neither their code nor their names.
Where to start reading: `apiserver` (the verbs), `door` (the way of a request), then
`writing` and `watching`; `store` is what all of them stand on.
"""

from gpushare_plugin.sim.apiserver.access import ADMIN, ANONYMOUS, Access, Rule, Use, User
from gpushare_plugin.sim.apiserver.admission import (
    AdmissionPolicy,
    AdmissionRequest,
    Denial,
    Operation,
)
from gpushare_plugin.sim.apiserver.apiserver import SimApiServer
from gpushare_plugin.sim.apiserver.control import ControlServer
from gpushare_plugin.sim.apiserver.control_client import ApiServerControl
from gpushare_plugin.sim.apiserver.failures import (
    ControlError,
    ObjectExistsError,
    SimApiServerError,
    UnknownObjectError,
    WaitExpiredError,
)
from gpushare_plugin.sim.apiserver.faults import Fault, FaultKind
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings, TooOld
from gpushare_plugin.sim.apiserver.states import ApiServerState, CallRecord, WatchState

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "Access",
    "AdmissionPolicy",
    "AdmissionRequest",
    "ApiServerControl",
    "ApiServerSettings",
    "ApiServerState",
    "CallRecord",
    "ControlError",
    "ControlServer",
    "Denial",
    "Fault",
    "FaultKind",
    "ObjectExistsError",
    "Operation",
    "Rule",
    "SimApiServer",
    "SimApiServerError",
    "TooOld",
    "UnknownObjectError",
    "Use",
    "User",
    "WaitExpiredError",
    "WatchState",
]
