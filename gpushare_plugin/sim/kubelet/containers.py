"""What the container runtime is told to make, from the plugins' answers and the pod's own spec.

Rule 1: equal keys of two plugins: the first in the order given wins.
Rule 2: the pod wins over every plugin: its environment, and its mounts by path.
Rule 3: pure; whoever calls decides the order.
"""

from collections.abc import Iterable
from dataclasses import replace

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet.pods import (
    BindMount,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    DeviceNode,
)


def started(
    status: ContainerStatus, spec: ContainerSpec, answers: Iterable[bytes]
) -> ContainerStatus:
    """Return the container as it runs with these answers, each a ContainerAllocateResponse."""
    env: dict[str, str] = {}
    mounts: dict[str, BindMount] = {}
    nodes: dict[str, DeviceNode] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    for answer in map(wire.ContainerAllocateResponse.FromString, answers):
        # What stands on the right of | wins.
        env = dict(answer.envs) | env
        annotations = dict(answer.annotations) | annotations
        mounts = {m.container_path: _mount(m) for m in answer.mounts} | mounts
        nodes = {d.container_path: _node(d) for d in answer.devices} | nodes
        cdi |= dict.fromkeys(device.name for device in answer.cdi_devices)
    return replace(
        status,
        state=ContainerState.RUNNING,
        reason="",
        message="",
        env=env | dict(spec.env),
        mounts=tuple(m for path, m in sorted(mounts.items()) if path not in spec.mount_paths),
        device_nodes=tuple(node for _, node in sorted(nodes.items())),
        annotations=annotations,
        cdi_devices=tuple(cdi),
    )


def _mount(mount: wire.Mount) -> BindMount:
    return BindMount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        read_only=mount.read_only,
    )


def _node(device: wire.DeviceSpec) -> DeviceNode:
    return DeviceNode(
        container_path=device.container_path,
        host_path=device.host_path,
        permissions=device.permissions,
    )
