"""How the GPUs of a node are joined: PCIe paths and NVLink.

Rule: an NVLink counts for the pair whose GPUs it joins. One that ends at a switch (or
where NVML cannot say) counts for every pair that NVML says can talk over NVLink.
"""

from collections import Counter
from dataclasses import dataclass
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

Address = tuple[int, int, int]
"""PCI domain, bus and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """One GPU and where its active NVLinks lead."""

    uuid: str
    handle: Handle
    address: Address | None
    lanes: Counter[Address | None]
    """NVLinks by the address at their other end; None where NVML cannot say."""


def links() -> tuple[Link, ...]:
    """Return how the GPUs are joined; see `ports.GpuSource`."""
    gpus = [_linked(uuid, handle) for uuid, handle in handles()]
    of_gpus = {gpu.address for gpu in gpus if gpu.address is not None}
    found = []
    for one, other in combinations(gpus, 2):
        ancestor = or_none(pynvml.nvmlDeviceGetTopologyCommonAncestor, one.handle, other.handle)
        path = _PATHS.get(ancestor)
        nvlinks = _nvlinks(one, other, of_gpus)
        if path is not None or nvlinks:
            found.append(Link(uuids=(one.uuid, other.uuid), path=path, nvlinks=nvlinks))
    return tuple(found)


def _linked(uuid: str, handle: Handle) -> Linked:
    lanes: Counter[Address | None] = Counter()
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = or_none(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        if state == pynvml.NVML_FEATURE_ENABLED:
            lanes[_address(or_none(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link))] += 1
    address = _address(or_none(pynvml.nvmlDeviceGetPciInfo, handle))
    return Linked(uuid=uuid, handle=handle, address=address, lanes=lanes)


def _nvlinks(one: Linked, other: Linked, of_gpus: set[Address]) -> int:
    direct = one.lanes[other.address] if other.address is not None else 0
    if direct:
        return direct
    elsewhere = min(
        sum(count for address, count in gpu.lanes.items() if address not in of_gpus)
        for gpu in (one, other)
    )
    return elsewhere if elsewhere and _nvlink_joins(one.handle, other.handle) else 0


def _address(pci: pynvml.nvmlPciInfo_t | None) -> Address | None:
    return (int(pci.domain), int(pci.bus), int(pci.device)) if pci is not None else None


def _nvlink_joins(one: Handle, other: Handle) -> bool:
    nvlink = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    status = or_none(pynvml.nvmlDeviceGetP2PStatus, one, other, nvlink)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)
