"""The faults that a simulated kubelet can be told to have, at any time.

Rule: setting faults replaces all of them, counters included.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong from now on; the default is nothing."""

    refuse_registrations: int = 0
    """How many of the next registrations to refuse; counted anew whenever faults are set."""
    refuse_text: str = "refused on request"
    refuse_status: str = "UNKNOWN"
    """The name of a gRPC status code."""
    register_seconds: float = 0.0
    """How long Register waits before it looks at the request."""
    register_hangs: bool = False
    withhold_list_and_watch: bool = False
    """Register succeeds, but the kubelet never asks for the devices."""
    list_seconds: float = 0.0
    """How long each PodResources call waits before it answers."""
    pod_resources_unimplemented: bool = False
    pod_resources_absent: bool = False
    """No PodResources socket; looked at when the kubelet starts."""


class FaultsInForce:
    """The faults as they stand now, and how many refusals are left."""

    def __init__(self) -> None:
        self._faults = Faults()
        self._refusals_left = 0

    @property
    def current(self) -> Faults:
        """What was set last."""
        return self._faults

    def set(self, faults: Faults) -> None:
        """Replace what is in force."""
        self._faults = faults
        self._refusals_left = faults.refuse_registrations

    def take_refusal(self) -> bool:
        """Whether to refuse the registration at hand."""
        if self._refusals_left <= 0:
            return False
        self._refusals_left -= 1
        return True
