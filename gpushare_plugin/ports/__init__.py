"""The seams: what the services ask of the outside, and the values that come back.

Rule 1: a seam stands where the outside is (NVML, the kubelet, a socket's file), and
nowhere else.
Rule 2: a seam's errors are ours (`errors`), whoever is behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gpushare_plugin.core.association import ListedPod
from gpushare_plugin.core.devices import Gpu
from gpushare_plugin.core.sharing import LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at all GPUs of the node."""

    gpus: tuple[Gpu, ...]
    """Those that can be shared, in NVML order, MIG instances in the place of their GPU."""
    left_out: tuple[LeftOut, ...]
    driver_version: str
    cuda_version: str
    any_mig: bool


class PathLevel(Enum):
    """How far the PCIe path between two GPUs reaches; the value is nvidia-smi's word."""

    SAME_BOARD = "PSB"
    SINGLE_SWITCH = "PIX"
    MULTIPLE_SWITCHES = "PXB"
    HOST_BRIDGE = "PHB"
    NUMA_NODE = "NODE"
    SYSTEM = "SYS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How two GPUs of the node are joined."""

    uuids: tuple[str, str]
    path: PathLevel | None
    """None where NVML cannot tell."""
    nvlinks: int
    """Active NVLink lanes between the two, direct or through a switch; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a card answered when asked how it is.

    `uncorrected_ecc` is the volatile count; None where the card does not count.
    """

    uncorrected_ecc: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    """One event from the driver."""

    uuid: str | None
    """The GPU's; None where the driver does not say."""
    xid: int | None
    """None for an event that is no XID (a double-bit ECC error)."""
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


class GpuEvents(Protocol):
    """One event set of the driver over all GPUs; used from one thread."""

    @property
    def unwatched(self) -> frozenset[str]:
        """UUIDs of the GPUs that tell no events."""

    @property
    def asked(self) -> frozenset[str]:
        """UUIDs of the GPUs that were there to be asked; others need another event set."""

    def wait(self, *, timeout_seconds: float) -> GpuEvent | None:
        """Return the next event, or None after the time-out.

        Raises:
            NvmlError: the event set is lost; make another.
        """

    def close(self) -> None:
        """Give the event set back; never raises."""


class GpuSource(Protocol):
    """NVML. Blocking: called from one worker thread, the event set from another."""

    def open(self) -> None:
        """Load the library and connect to the driver.

        Raises:
            NvmlUnavailable: with the cause and the cure.
        """

    def close(self) -> None:
        """Disconnect; never raises. `open` may follow."""

    def read(self) -> Reading:
        """Look at all GPUs; one that does not answer is left out, not an error.

        Raises:
            NvmlUnavailable: the driver does not answer at all.
        """

    def links(self) -> tuple[Link, ...]:
        """Return how the GPUs are joined; pairs of which nothing is known are left out."""

    def probe(self, uuid: str) -> Probe:
        """Ask one card how it is, by a fresh handle.

        Raises:
            GpuLost: the card is not there.
            NvmlError: it answered with an error.
        """

    def events(self) -> GpuEvents:
        """Make an event set and register every GPU with it.

        Raises:
            NvmlError: no event set can be made.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a plugin tells the kubelet of itself."""

    endpoint: str
    """The file name of its socket in the plugin folder."""
    resource_name: str
    preferred_allocation: bool = True


class Kubelet(Protocol):
    """The kubelet's registration service."""

    async def register(self, registration: Registration, *, timeout_seconds: float) -> None:
        """Register a plugin that is already serving: the kubelet dials it inside this call.

        Raises:
            KubeletUnavailable: nobody answers, or not now.
            KubeletRefused: it will never take this registration.
        """


class PodResources(Protocol):
    """The kubelet's account of which pod holds which devices."""

    async def list_pods(self, resource_name: str, *, timeout_seconds: float) -> Sequence[ListedPod]:
        """Return the active pods with what they hold of one resource.

        Raises:
            PodResourcesError: it could not be had within the time.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketIdentity:
    """Which file a socket's path is now; inode numbers alone are reused."""

    inode: int
    changed_ns: int


class SocketFiles(Protocol):
    """The sockets in the plugin folder, as files."""

    def identity(self, name: str) -> SocketIdentity | None:
        """Return which file the name is now; None if there is none."""

    async def changed(self, *, timeout_seconds: float) -> None:
        """Return when something in the folder changed, or after the time-out."""


class RecordFile(Protocol):
    """The copy of the card record on this node. Blocking: a disk may be slow."""

    def read(self) -> str | None:
        """Return the text, or None where there is none.

        Raises:
            RecordError: there is something, and it cannot be read.
        """

    def write(self, text: str) -> None:
        """Put the text in the place of what is there, whole or not at all.

        Raises:
            RecordError: it could not be written; what was there still is.
        """

    def is_kept(self) -> bool:
        """Say whether what was read or written last is still there."""
