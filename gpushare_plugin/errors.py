"""The error tree: what can go wrong, by who can do something about it.

Every error that leaves a module of ours is one of these; an error of a foreign
library is caught at its door, told in our words, and chained as the cause. The
text names the thing, what was found, what was expected and what to do.

    GpushareError
    ├── ConfigError            a setting is wrong: the start stops
    │   └── UnitError          the memory unit cannot work on these cards
    ├── RecordError            an annotation or a file of ours does not parse, or cannot be written
    ├── QuantityError          a Kubernetes quantity that does not parse
    ├── AskError               a pod asks for what no node can give as it asks for it
    ├── DeviceIdError          a device ID that is not one of ours
    ├── AllocationRefused      one container cannot be served
    ├── NvmlError              NVML did not answer, or answered with an error
    │   ├── NvmlUnavailable    library or driver is not there, or does not fit
    │   │   └── DriverReplaced the driver was replaced under this process
    │   └── GpuLost            one GPU is not there any more
    ├── KubeletError
    │   ├── KubeletUnavailable    nobody answers, or not now: try again
    │   └── KubeletRefused        it will never take us: trying again is no use
    ├── PluginSocketError      our own socket cannot be made
    ├── ApiError               the API server did not do what was asked
    │   ├── ApiUnavailable     nobody answers, or not now: try again
    │   │   └── ApiThrottled   it says when to come again
    │   ├── ApiRefused         401, 403: the credentials or the rights are not enough
    │   ├── ApiConflict        409, 422: the object is another one by now
    │   ├── ApiNotFound        404
    │   └── ApiExpired         410: the version asked for is forgotten; list again
    ├── PodResourcesError      the kubelet did not tell which pod holds what
    │   └── PodResourcesLimited   asked too often; ask again in a moment
    ├── RequestError           what a scheduler sent cannot be read
    ├── ListenError            our own address cannot be served
    └── SimulationError        a simulated peer cannot be set up
"""

from enum import Enum


class GpushareError(Exception):
    """The root; never raised itself."""


class ConfigError(GpushareError):
    """A setting is wrong; the text says which, what was found and what was expected."""


class UnitError(ConfigError):
    """The memory unit cannot work on the cards of this node."""


class RecordError(GpushareError):
    """An annotation or a file of ours that does not parse, or cannot be read or written."""


class QuantityError(GpushareError):
    """A text that is no Kubernetes quantity."""


class AskError(GpushareError):
    """A pod asks in a way that no node can serve: its spec or an annotation of it is at fault."""


class DeviceIdError(GpushareError):
    """A device ID is malformed, foreign, or of no card of this node."""


class Refusal(Enum):
    """Why a container was refused; the value is the metric's label."""

    SEVERAL_CARDS = "several_cards"
    UNKNOWN_DEVICE = "unknown_device"
    BAD_REQUEST = "bad_request"
    UNHEALTHY_CARD = "unhealthy_card"
    NO_EXTENDER = "no_extender"
    WHOLE_CARDS = "whole_cards"
    CORES_WITHOUT_MEMORY = "cores_without_memory"
    CORES_OVER_CARDS = "cores_over_cards"
    CARD_COUNT = "card_count"
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


class DriverReplaced(NvmlUnavailable):
    """The loaded library does not fit the kernel's driver: one of them was replaced.

    A process keeps the library that it loaded, so only its own restart cures it.
    """


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


class ApiError(GpushareError):
    """The API server did not do what was asked; the text names verb, object and reason."""


class ApiUnavailable(ApiError):
    """Nobody answers, or not now (5xx, 429, time-out): trying again may help."""


class ApiThrottled(ApiUnavailable):
    """429, or any other answer that says when to come again.

    Attributes:
        retry_after_seconds: how long the server asks to be left alone.
        begun: whether the request may have been carried out; a 429 is said before that.
    """

    def __init__(self, message: str, *, retry_after_seconds: float, begun: bool = True) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.begun = begun


class ApiRefused(ApiError):
    """401 or 403: the credentials or the rights are not enough."""


class ApiConflict(ApiError):
    """409 or 422: the object is another one by now."""


class ApiNotFound(ApiError):
    """404: there is no such object."""


class ApiExpired(ApiError):
    """410: the resource version is forgotten; list again."""


class PodResourcesError(GpushareError):
    """The kubelet did not tell which pod holds which devices."""


class PodResourcesLimited(PodResourcesError):
    """It was asked too often; what was known before still holds."""


class RequestError(GpushareError):
    """What a scheduler sent cannot be read; the text says where, and what was expected."""


class ListenError(GpushareError):
    """An address of ours cannot be served: taken, not of this machine, or not allowed."""


class SimulationError(GpushareError):
    """A simulated peer cannot be set up."""
