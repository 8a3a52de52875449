"""NVML's answers in our words: errors as ours, what cannot be told as None.

Rule: an error names what was asked, and where the cure is known, the cure.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pynvml

from gpushare_plugin.errors import DriverReplaced, GpuLost, NvmlError, NvmlUnavailable

T = TypeVar("T")

Handle = Any
"""pynvml is not typed; its handles go nowhere but back to it."""

_CURES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 is not found: install the NVIDIA driver, run this container with the"
        " nvidia runtime, or name the library with --nvml-library"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded: load it (modprobe nvidia), or wait for the"
        " driver container"
    ),
    pynvml.NVML_ERROR_UNINITIALIZED: "NVML was shut down under us",
}

_REPLACED = (
    "the NVIDIA library does not fit the loaded kernel driver (upgraded in place): reload the"
    " driver or reboot the node, and restart this daemon, which keeps the library that it loaded"
)
_NO_PERMISSION = "no permission to talk to the driver: give this container the nvidia runtime"
"""Of one GPU: its device node is not allowed here; the others may be."""

_LOST = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn pynvml's errors into ours, naming what was asked."""
    try:
        yield
    except pynvml.NVMLError as error:
        code = error.value
        if code in _CURES:
            raise NvmlUnavailable(_CURES[code]) from error
        if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverReplaced(_REPLACED) from error
        if code == pynvml.NVML_ERROR_NO_PERMISSION:
            raise NvmlError(f"{what}: {_NO_PERMISSION}") from error
        if code in _LOST:
            raise GpuLost(f"{what}: {error}") from error
        raise NvmlError(f"{what}: {error}") from error
    except UnicodeDecodeError as error:
        raise NvmlError(f"{what}: NVML's answer is not text") from error


def or_none(ask: Callable[..., T], *of: object) -> T | None:
    """Return the answer, or None where this driver or card cannot tell."""
    try:
        return ask(*of)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None


def text(value: str | bytes) -> str:
    """Return text: pynvml's releases differ in what they give."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def handles() -> Iterator[tuple[str, Handle]]:
    """Yield UUID and handle of each GPU that answers, in NVML order.

    Raises:
        NvmlError: the driver does not answer at all.
    """
    with told("counting the GPUs"):
        count = pynvml.nvmlDeviceGetCount()
    for index in range(count):
        handle = or_none(pynvml.nvmlDeviceGetHandleByIndex, index)
        uuid = or_none(pynvml.nvmlDeviceGetUUID, handle)
        if uuid is not None:
            yield text(uuid), handle
