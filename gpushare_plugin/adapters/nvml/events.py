"""The driver's events: XIDs and double-bit errors, over one event set."""

import ctypes

import pynvml

from gpushare_plugin.adapters.nvml.answers import Handle, or_none, told
from gpushare_plugin.errors import NvmlError
from gpushare_plugin.ports import GpuEvent

NO_INSTANCE = 0xFFFFFFFF
"""What NVML puts where an event is of no MIG instance."""


class NvmlEvents:
    """One event set; see `ports.GpuEvents`."""

    def __init__(self, handles: dict[str, Handle]) -> None:
        with told("making an event set"):
            self._set = pynvml.nvmlEventSetCreate()
        self._uuid_by_address = {_address(handle): uuid for uuid, handle in handles.items()}
        watched = {uuid: self._watch(handle) for uuid, handle in handles.items()}
        self.unwatched = frozenset(uuid for uuid, works in watched.items() if works is False)
        self.asked = frozenset(uuid for uuid, works in watched.items() if works is not None)

    def _watch(self, handle: Handle) -> bool | None:
        """Say whether the GPU tells its events; None for one that was lost just then."""
        wanted = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
        try:
            supported = wanted & pynvml.nvmlDeviceGetSupportedEventTypes(handle)
            if not supported & pynvml.nvmlEventTypeXidCriticalError:
                return False
            pynvml.nvmlDeviceRegisterEvents(handle, supported, self._set)
        except pynvml.NVMLError_GpuIsLost:
            return None
        except pynvml.NVMLError:
            # Whatever the reason: a card that tells nothing is known by its probes.
            return False
        return True

    def wait(self, *, timeout_seconds: float) -> GpuEvent | None:
        """Return the next event; see `ports.GpuEvents`."""
        try:
            data = pynvml.nvmlEventSetWait_v2(self._set, int(timeout_seconds * 1000))
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            raise NvmlError(f"waiting for events: {error}") from error
        is_xid = data.eventType == pynvml.nvmlEventTypeXidCriticalError
        return GpuEvent(
            uuid=self._uuid_by_address.get(_address(data.device)),
            xid=int(data.eventData) if is_xid else None,
            gpu_instance_id=_instance_id(data.gpuInstanceId),
            compute_instance_id=_instance_id(data.computeInstanceId),
        )

    def close(self) -> None:
        """Give the event set back; never raises."""
        or_none(pynvml.nvmlEventSetFree, self._set)


def _address(handle: Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _instance_id(number: int) -> int | None:
    return None if number == NO_INSTANCE else int(number)
