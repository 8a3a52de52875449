"""How the GPUs of a node are joined: PCIe paths and NVLink."""

from itertools import combinations

import pynvml

from gpushare_plugin.adapters.nvml.answers import Handle, handles, or_none
from gpushare_plugin.ports import Link, PathLevel

_PATHS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: PathLevel.SAME_BOARD,
    pynvml.NVML_TOPOLOGY_SINGLE: PathLevel.SINGLE_SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: PathLevel.MULTIPLE_SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: PathLevel.HOST_BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: PathLevel.NUMA_NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: PathLevel.SYSTEM,
}


def links() -> tuple[Link, ...]:
    """Return how the GPUs are joined; see `ports.GpuSource`."""
    by_uuid = dict(handles())
    lanes = {uuid: _active_nvlinks(handle) for uuid, handle in by_uuid.items()}
    found = []
    for (one, first), (other, second) in combinations(by_uuid.items(), 2):
        path = _PATHS.get(or_none(pynvml.nvmlDeviceGetTopologyCommonAncestor, first, second))
        nvlinks = min(lanes[one], lanes[other]) if _nvlink_joins(first, second) else 0
        if path is not None or nvlinks:
            found.append(Link(uuids=(one, other), path=path, nvlinks=nvlinks))
    return tuple(found)


def _active_nvlinks(handle: Handle) -> int:
    states = (
        or_none(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
    )
    return sum(1 for state in states if state == pynvml.NVML_FEATURE_ENABLED)


def _nvlink_joins(one: Handle, other: Handle) -> bool:
    nvlink = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    status = or_none(pynvml.nvmlDeviceGetP2PStatus, one, other, nvlink)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)
