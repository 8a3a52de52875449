"""The faults that a simulated API server can be told to have, at any time.

Rule 1: faults lie one over the other; each says which calls it strikes, and how
often, or until lifted.
Rule 2: a fault that is used up is gone.
"""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from gpushare_plugin.sim.apiserver.failures import UnknownObjectError
from gpushare_plugin.sim.apiserver.targets import Target


class FaultKind(StrEnum):
    """What goes wrong."""

    STATUS = "status"
    """The call is refused with `status`, and nothing is done."""
    HANG = "hang"
    """The call is accepted and never answered, nor done."""
    SLOW = "slow"
    """The call waits for `seconds` before anything is done."""
    LOSE_ANSWER = "lose-answer"
    """The call is done, and the connection breaks before the answer."""
    APPLY_LATE = "apply-late"
    """The call is done after `seconds`, even if its client has gone by then."""
    SILENT_WATCH = "silent-watch"
    """A watch opens and then says nothing, nor ends: a half-open connection."""
    DROP_EVENTS = "drop-events"
    """An event is not sent; counted in events, not in calls."""
    LATE_EVENTS = "late-events"
    """Events wait for up to `seconds` before they are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and what it strikes; an empty field strikes all."""

    kind: FaultKind
    verbs: tuple[str, ...] = ()
    """Such as get, list, watch, create, update, patch, delete."""
    resource: str = "*"
    """A pattern; `pods` does not strike `pods/status`, `pods*` strikes both."""
    name: str = "*"
    """A pattern for the object's name; a list has none."""
    events: tuple[str, ...] = ()
    """For DROP_EVENTS: such as ADDED, MODIFIED, DELETED, BOOKMARK."""
    count: int = 0
    """How often; 0 for until lifted."""
    status: int = 500
    message: str = "refused on request"
    retry_after_seconds: int = 0
    """The Retry-After header; 0 for none."""
    seconds: float = 0.0

    def strikes(self, target: Target) -> bool:
        """Whether a call is among those meant."""
        return self.touches(verb=target.verb, resource=target.resource, name=target.name)

    def touches(self, *, verb: str, resource: str, name: str) -> bool:
        """As `strikes`, where there is no target."""
        return (
            (not self.verbs or verb in self.verbs)
            and fnmatchcase(resource, self.resource)
            and fnmatchcase(name, self.name)
        )


class FaultsInForce:
    """The faults as they stand now, oldest first."""

    def __init__(self) -> None:
        self._faults: dict[int, Fault] = {}
        self._left: dict[int, int] = {}
        self._last = 0

    @property
    def current(self) -> dict[int, Fault]:
        """The faults by their numbers."""
        return dict(self._faults)

    def inject(self, fault: Fault) -> int:
        """Put a fault in force; return the number to lift it by."""
        self._last += 1
        self._faults[self._last] = fault
        self._left[self._last] = fault.count
        return self._last

    def lift(self, number: int) -> None:
        """End a fault; raises UnknownObjectError for one that never was."""
        if not 0 < number <= self._last:
            raise UnknownObjectError(f"there never was a fault {number}")
        self._faults.pop(number, None)

    def lift_all(self) -> None:
        """End all of them."""
        self._faults.clear()

    def take(self, target: Target, kind: FaultKind) -> Fault | None:
        """Return the first fault of that kind which strikes this call, counted once."""
        for number, fault in self._faults.items():
            if fault.kind is kind and fault.strikes(target):
                self._count(number)
                return fault
        return None

    def take_event(self, resource: str, name: str, event: str) -> bool:
        """Whether an event of a watch is to be dropped."""
        for number, fault in self._faults.items():
            if (
                fault.kind is FaultKind.DROP_EVENTS
                and (not fault.events or event in fault.events)
                and fault.touches(verb="watch", resource=resource, name=name)
            ):
                self._count(number)
                return True
        return False

    def lateness_seconds(self, resource: str) -> float:
        """Return how long the events of a watch are held back."""
        late = (
            fault.seconds
            for fault in self._faults.values()
            if fault.kind is FaultKind.LATE_EVENTS and fnmatchcase(resource, fault.resource)
        )
        return max(late, default=0.0)

    def _count(self, number: int) -> None:
        self._left[number] -= 1
        if self._left[number] == 0:
            del self._faults[number]
