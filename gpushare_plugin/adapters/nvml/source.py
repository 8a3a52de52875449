"""The GPUs of this node: open, look, probe, watch, close.

Rule 1: a GPU that does not answer is left out with a reason; the others go on.
Rule 2: handles are fetched anew for every look and every probe: a call on a handle
of a lost card has been seen to crash the process.
"""

import ctypes
from pathlib import Path

import pynvml

from gpushare_plugin.adapters.nvml import topology
from gpushare_plugin.adapters.nvml.answers import Handle, handles, or_none, text, told
from gpushare_plugin.adapters.nvml.events import NvmlEvents
from gpushare_plugin.adapters.nvml.gpus import (
    gpu,
    gpu_without_memory,
    instance,
    mig_is_on,
    uncorrected_ecc,
)
from gpushare_plugin.core.devices import Gpu
from gpushare_plugin.core.sharing import UNNAMED, LeftOut
from gpushare_plugin.errors import GpuLost, NvmlError, NvmlUnavailable
from gpushare_plugin.ports import Link, Probe, Reading


class NvmlSource:
    """The GPUs of this node, as NVML shows them."""

    def __init__(self, *, library: Path | None = None, share_mig: bool = False) -> None:
        """Remember what to open; nothing is loaded yet.

        Args:
            library: the absolute path of libnvidia-ml.so.1, where the loader would not find it.
            share_mig: MIG instances are GPUs of their own; else a GPU in MIG mode is left out.
        """
        self._library = library
        self._share_mig = share_mig

    def open(self) -> None:
        """Load the library and connect to the driver; see `ports.GpuSource`."""
        if not hasattr(pynvml, "nvmlDeviceGetMigMode"):
            raise NvmlUnavailable(
                f"the Python module pynvml ({pynvml.__file__}) is not nvidia-ml-py's:"
                " uninstall the package named pynvml and install nvidia-ml-py"
            )
        if self._library is not None:
            try:
                # pynvml asks the loader for libnvidia-ml.so.1 and gets what bears that soname.
                ctypes.CDLL(str(self._library))
            except OSError as error:
                raise NvmlUnavailable(f"{self._library} cannot be loaded: {error}") from error
        try:
            with told("connecting to the driver"):
                pynvml.nvmlInit()
        except NvmlUnavailable:
            raise
        except NvmlError as error:
            raise NvmlUnavailable(str(error)) from error

    def close(self) -> None:
        """Disconnect; never raises."""
        or_none(pynvml.nvmlShutdown)

    def read(self) -> Reading:
        """Look at all GPUs; see `ports.GpuSource`."""
        with told("counting the GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        gpus: list[Gpu] = []
        left_out: list[LeftOut] = []
        any_mig = False
        for index in range(count):
            name = f"{UNNAMED}{index}"
            try:
                with told(f"GPU {index}"):
                    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                    name = text(pynvml.nvmlDeviceGetUUID(handle))
                    if not mig_is_on(handle):
                        gpus.append(gpu(handle, index))
                        continue
                    any_mig = True
                    instances, unread = self._instances(handle, index)
                    gpus += instances
                    left_out += unread
            except NvmlUnavailable:
                raise
            except NvmlError as error:
                lost = isinstance(error, GpuLost)
                left_out.append(LeftOut(name=name, reason=str(error), lost=lost))
        return Reading(
            gpus=tuple(gpus),
            left_out=tuple(left_out),
            driver_version=text(or_none(pynvml.nvmlSystemGetDriverVersion) or ""),
            cuda_version=_cuda_version(),
            any_mig=any_mig,
        )

    def _instances(self, parent: Handle, index: int) -> tuple[list[Gpu], list[LeftOut]]:
        if not self._share_mig:
            raise NvmlError("MIG mode is on; --mig shared shares its instances")
        whole = gpu_without_memory(parent, index)
        instances: list[Gpu] = []
        left_out: list[LeftOut] = []
        for slot in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(parent)):
            handle = or_none(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, slot)
            if handle is None:
                continue
            name = f"MIG instance {slot} of NVML index {index}"
            try:
                with told(name):
                    name = text(pynvml.nvmlDeviceGetUUID(handle))
                    instances.append(instance(handle, whole))
            except NvmlUnavailable:
                raise
            except NvmlError as error:
                left_out.append(LeftOut(name=name, reason=str(error)))
        if not instances and not left_out:
            raise NvmlError("MIG mode is on, and there is no MIG instance to share")
        return instances, left_out

    def links(self) -> tuple[Link, ...]:
        """Return how the GPUs are joined; see `ports.GpuSource`."""
        return topology.links()

    def probe(self, uuid: str) -> Probe:
        """Ask one card how it is; see `ports.GpuSource`."""
        with told(f"card {uuid}"):
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            pynvml.nvmlDeviceGetMemoryInfo(handle)
            return Probe(uncorrected_ecc=uncorrected_ecc(handle))

    def events(self) -> "NvmlEvents":
        """Make an event set over all GPUs; see `ports.GpuSource`."""
        return NvmlEvents(dict(handles()))


def _cuda_version() -> str:
    number = or_none(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""
