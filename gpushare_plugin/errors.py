"""The error tree: what can go wrong, by who can do something about it.

Every error that leaves a module of ours is one of these; an error of a foreign
library is caught at its door, told in our words, and chained as the cause. The
text names the thing, what was found, what was expected and what to do.

    GpushareError
    ├── ConfigError            a setting is wrong: the start stops
    │   └── UnitError          the memory unit cannot work on these cards
    ├── DeviceIdError          a device ID that is not one of ours
    ├── AllocationRefused      one container cannot be served
    ├── NvmlError              NVML did not answer, or answered with an error
    │   ├── NvmlUnavailable    library or driver is not there, or does not fit
    │   └── GpuLost            one GPU is not there any more
    ├── KubeletError
    │   ├── KubeletUnavailable    nobody answers, or not now: try again
    │   └── KubeletRefused        it will never take us: trying again is no use
    ├── PluginSocketError      our own socket cannot be made
    ├── PodResourcesError      the kubelet did not tell which pod holds what
    └── SimulationError        a simulated peer cannot be set up
"""

from enum import Enum


class GpushareError(Exception):
    """The root; never raised itself."""


class ConfigError(GpushareError):
    """A setting is wrong; the text says which, what was found and what was expected."""


class UnitError(ConfigError):
    """The memory unit cannot work on the cards of this node."""


class DeviceIdError(GpushareError):
    """A device ID is malformed, foreign, or of no card of this node."""


class Refusal(Enum):
    """Why a container was refused; the value is the metric's label."""

    SEVERAL_CARDS = "several_cards"
    UNKNOWN_DEVICE = "unknown_device"
    BAD_REQUEST = "bad_request"
    UNHEALTHY_CARD = "unhealthy_card"
    DEADLINE = "deadline"


class AllocationRefused(GpushareError):
    """One container cannot be served: names the request, the cards, the cause and the cure.

    Attributes:
        cause: why, for the metric and the gRPC status.
    """

    def __init__(self, cause: Refusal, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class NvmlError(GpushareError):
    """NVML did not answer, or answered with an error."""


class NvmlUnavailable(NvmlError):
    """The NVML library or the driver is not there, or the two do not fit."""


class GpuLost(NvmlError):
    """One GPU is not there any more: off the bus, or gone from NVML's list."""


class KubeletError(GpushareError):
    """The kubelet could not be spoken to."""


class KubeletUnavailable(KubeletError):
    """Nobody answers on the kubelet's socket, or it cannot take us just now."""


class KubeletRefused(KubeletError):
    """The kubelet refuses what we are: another try would be refused alike."""


class PluginSocketError(GpushareError):
    """Our own socket cannot be made: no permission, a path too long, no folder."""


class PodResourcesError(GpushareError):
    """The kubelet did not tell which pod holds which devices."""


class SimulationError(GpushareError):
    """A simulated peer cannot be set up."""
