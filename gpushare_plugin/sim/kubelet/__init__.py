"""A simulated kubelet: a real gRPC peer for a device plugin, on real Unix sockets.

Use it in process (`async with SimKubelet(settings) as kubelet:`), or as a process of
its own (`python -m gpushare_plugin.sim.kubelet`) that a `KubeletControl` drives.
What it does is what kubelet 1.36 was measured to do, faults included.

It must not know the daemon it is the peer of: neither its code nor its names.
Where to start reading: `kubelet` (the verbs), `life` (one run), then `registration`
and `admission`; `devices` is the accounts that all of them keep.
"""

from gpushare_plugin.sim.kubelet.control import ControlServer
from gpushare_plugin.sim.kubelet.control_client import KubeletControl
from gpushare_plugin.sim.kubelet.failures import (
    ControlError,
    KubeletStoppedError,
    SimKubeletError,
    UnknownPodError,
    WaitExpiredError,
)
from gpushare_plugin.sim.kubelet.faults import Faults
from gpushare_plugin.sim.kubelet.kubelet import SimKubelet
from gpushare_plugin.sim.kubelet.pods import (
    BindMount,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    DeviceNode,
    Phase,
    PodSpec,
    PodStatus,
)
from gpushare_plugin.sim.kubelet.settings import KubeletSettings, PodResourcesShape
from gpushare_plugin.sim.kubelet.states import (
    KubeletState,
    RegistrationRecord,
    ResourceState,
    RpcRecord,
    StreamState,
)

__all__ = [
    "BindMount",
    "ContainerSpec",
    "ContainerState",
    "ContainerStatus",
    "ControlError",
    "ControlServer",
    "DeviceNode",
    "Faults",
    "KubeletControl",
    "KubeletSettings",
    "KubeletState",
    "KubeletStoppedError",
    "Phase",
    "PodResourcesShape",
    "PodSpec",
    "PodStatus",
    "RegistrationRecord",
    "ResourceState",
    "RpcRecord",
    "SimKubelet",
    "SimKubeletError",
    "StreamState",
    "UnknownPodError",
    "WaitExpiredError",
]
