"""An NVML that hangs, breaks and answers as a test tells it: a `GpuSource` in memory."""

import threading
from collections.abc import Callable

from gpushare_plugin.core.devices import Gpu
from gpushare_plugin.core.units import CardMemory
from gpushare_plugin.errors import NvmlError
from gpushare_plugin.ports import GpuEvent, Link, Probe, Reading

LONGEST_SECONDS = 30.0
"""A call that was told to hang ends after this, whatever a test forgot."""


def gpu(uuid: str, index: int = 0, *, total_mib: int = 4096) -> Gpu:
    return Gpu(
        uuid=uuid,
        nvml_index=index,
        minor_number=index,
        model="Tesla T4",
        pci_address="00000000:3B:00.0",
        numa_node=None,
        memory=CardMemory(total_bytes=total_mib << 20),
    )


class ScriptedEvents:
    """An event set that tells nothing until its wait is told to do something."""

    def __init__(self, gpus: "ScriptedGpus") -> None:
        self._gpus = gpus
        self.unwatched: frozenset[str] = frozenset()
        self.asked = frozenset(gpu.uuid for gpu in gpus.gpus)

    def wait(self, *, timeout_seconds: float) -> GpuEvent | None:
        self._gpus.called("wait")
        self._gpus.stopped.wait(min(timeout_seconds, 0.02))
        return None

    def close(self) -> None:
        self._gpus.called("close_events")


class ScriptedGpus:
    """Two cards that are well, until a call is told to hang or to raise."""

    def __init__(self, *uuids: str) -> None:
        self.gpus = tuple(gpu(uuid, index) for index, uuid in enumerate(uuids))
        self.calls: list[str] = []
        self.stopped = threading.Event()
        self._hanging: dict[str, threading.Event] = {}
        self._raising: dict[str, Callable[[], BaseException]] = {}

    # --------------------------------------------------------------- what a test tells

    def hang(self, call: str) -> threading.Event:
        """Let a call hang; the event that comes back is set once one does."""
        self._hanging[call] = threading.Event()
        return self._hanging[call]

    def fail(self, call: str, error: Callable[[], BaseException]) -> None:
        self._raising[call] = error

    def heal(self, call: str) -> None:
        self._raising.pop(call, None)

    def release(self) -> None:
        """End every hanging call, now and from now on."""
        self._hanging.clear()
        self.stopped.set()

    def called(self, call: str) -> None:
        self.calls.append(call)
        if (hanging := self._hanging.get(call)) is not None:
            hanging.set()
            self.stopped.wait(LONGEST_SECONDS)
        if call in self._raising:
            error = self._raising[call]()
            raise error

    # --------------------------------------------------------------------- GpuSource

    def open(self) -> None:
        self.called("open")

    def close(self) -> None:
        self.called("close")

    def read(self) -> Reading:
        self.called("read")
        return Reading(
            gpus=self.gpus, left_out=(), driver_version="1", cuda_version="1", any_mig=False
        )

    def links(self) -> tuple[Link, ...]:
        return ()

    def probe(self, uuid: str) -> Probe:  # noqa: ARG002  # the seam's name
        self.called("probe")
        return Probe(uncorrected_ecc=None)

    def events(self) -> ScriptedEvents:
        self.called("events")
        return ScriptedEvents(self)


def broken() -> NvmlError:
    return NvmlError("the event set is broken")
