"""What one simulated kubelet is told at its start, for all its lives.

Rule: every default is what kubelet 1.36 was measured to do; a field that
models another version says which.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

KUBELET_SOCKET = "kubelet.sock"
CHECKPOINT_FILE = "kubelet_internal_checkpoint"


class PodResourcesShape(StrEnum):
    """How PodResources writes down the devices of one container."""

    PER_DEVICE = "per-device"
    """One entry for each device, as kubelets since 1.21."""
    GROUPED = "grouped"
    """One entry for each resource, as 1.20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The fixed properties of one kubelet."""

    plugin_dir: Path
    """Where kubelet.sock and the checkpoint are, and where plugins put their sockets."""
    pod_resources_socket: Path
    dial_seconds: float = 10.0
    """How long Register waits for the plugin's socket to answer."""
    prestart_seconds: float = 30.0
    """The deadline of PreStartContainer, the only call that has one."""
    endpoint_grace_seconds: float = 300.0
    """How long the capacity outlives the plugin."""
    start_retry_seconds: float = 1.0
    """How often a container that could not start is tried again."""
    receive_limit_bytes: int = 4_194_304
    """The largest message that the kubelet takes from a plugin."""
    options_from_register: bool = False
    """Old kubelets: believe the options in RegisterRequest, call no GetDevicePluginOptions."""
    topology_manager: bool = False
    """Topology manager policy best-effort, scope container."""
    podresources_shape: PodResourcesShape = PodResourcesShape.PER_DEVICE
    list_ended_pods: bool = False
    """Kubelets before 1.34: PodResources lists Succeeded and Failed pods too."""
    list_calls_per_second: float = 100.0
    list_burst_calls: int = 10
    rpc_log_entries: int = 10_000
    """How many calls the log keeps; the oldest go first."""
    seed: int = 1
    """Every random order and choice follows from it."""
