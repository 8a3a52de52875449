"""One GPU or MIG instance, as NVML describes it.

Rule: what a driver cannot tell is None, never a number that looks like one.
"""

from dataclasses import replace

import pynvml

from gpushare_plugin.adapters.nvml.answers import Handle, or_none, text
from gpushare_plugin.core.devices import Gpu, MigInstance
from gpushare_plugin.core.units import CardMemory
from gpushare_plugin.errors import NvmlError

MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: struct version 2, 40 bytes (nvml.h)."""


def gpu_without_memory(handle: Handle, index: int) -> Gpu:
    """Return what identifies a GPU; its memory is left at 0."""
    pci = or_none(pynvml.nvmlDeviceGetPciInfo, handle)
    return Gpu(
        uuid=text(pynvml.nvmlDeviceGetUUID(handle)),
        nvml_index=index,
        minor_number=or_none(pynvml.nvmlDeviceGetMinorNumber, handle),
        model=text(or_none(pynvml.nvmlDeviceGetName, handle) or "unknown"),
        pci_address=text(pci.busId) if pci is not None else "",
        numa_node=_numa_node(handle),
        memory=CardMemory(total_bytes=0),
    )


def gpu(handle: Handle, index: int) -> Gpu:
    """Return the GPU.

    Raises:
        NvmlError: NVML knows no memory size for it.
    """
    return replace(gpu_without_memory(handle, index), memory=_memory(handle))


def instance(handle: Handle, whole: Gpu) -> Gpu:
    """Return the MIG instance, with the place of the GPU that it is a part of."""
    return replace(
        whole,
        uuid=text(pynvml.nvmlDeviceGetUUID(handle)),
        model=text(or_none(pynvml.nvmlDeviceGetName, handle) or whole.model),
        memory=_memory(handle),
        mig=MigInstance(
            parent_uuid=whole.uuid,
            gpu_instance_id=int(pynvml.nvmlDeviceGetGpuInstanceId(handle)),
            compute_instance_id=int(pynvml.nvmlDeviceGetComputeInstanceId(handle)),
        ),
    )


def _memory(handle: Handle) -> CardMemory:
    """Return the memory by v2; by v1, which knows no reserved part, on old drivers and WSL."""
    info = or_none(pynvml.nvmlDeviceGetMemoryInfo, handle, MEMORY_V2)
    if info is not None and info.total > 0:
        return CardMemory(total_bytes=int(info.total), reserved_bytes=int(info.reserved))
    try:
        return CardMemory(total_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total))
    except pynvml.NVMLError_NotSupported as error:
        raise NvmlError(
            "NVML knows no memory size for it (unified memory?); it cannot be shared by memory"
        ) from error


def _numa_node(handle: Handle) -> int | None:
    """Return the lowest NUMA node near the GPU: what `nvidia-smi topo -m` shows."""
    nodes = or_none(pynvml.nvmlDeviceGetMemoryAffinity, handle, 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
    mask = int(nodes[0]) if nodes is not None else 0
    return (mask & -mask).bit_length() - 1 if mask else None


def uncorrected_ecc(handle: Handle) -> int | None:
    """Return the volatile count of uncorrected errors; None where the card does not count.

    Raises:
        NVMLError_GpuIsLost: the card is off the bus, which is not the same.
    """
    counted = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
    try:
        return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, *counted))
    except pynvml.NVMLError_GpuIsLost:
        raise
    except pynvml.NVMLError:
        return None


def mig_is_on(handle: Handle) -> bool:
    """Say whether the GPU is in MIG mode now."""
    mode = or_none(pynvml.nvmlDeviceGetMigMode, handle)
    return mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
