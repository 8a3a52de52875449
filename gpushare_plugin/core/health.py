"""The health of a card: a table of what is seen, what follows, and the way back.

Rule 1: unsupported, unknown and broken are three things. A card that cannot be
watched is not unhealthy.
Rule 2: every way into Unhealthy has its way out, written here.
Rule 3: time comes in as a value; nothing here reads a clock.

The XID numbers are those of NVIDIA's XID catalogue; the lists of applications'
faults is the one that NVIDIA's own device plugin passes over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

GOOD_PROBES_TO_RECOVER = 3


class Reaction(Enum):
    """What an XID leads to."""

    COUNT = "count"
    """The application's fault, or not to be acted on: counted only."""
    NOTE = "note"
    """Worth an event and a metric; the card stays healthy."""
    RESET = "reset"
    """Unhealthy until the card was lost and came back, or the daemon starts anew."""
    PROBE = "probe"
    """Ask the card: a bad answer makes it unhealthy, a good one is counted."""


APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
NOTED_XIDS = frozenset({63, 92, 94})
RESET_XIDS = frozenset({48, 64, 74, 79, 95, 119, 120})


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRule:
    """The table of XIDs, with the operator's own changes."""

    ignored: frozenset[int] = frozenset()
    """Counted only, whatever the table says."""
    only: frozenset[int] | None = None
    """If given, no other XID is acted on."""

    def reaction(self, xid: int) -> Reaction:
        """Return what the XID leads to."""
        if xid in self.ignored or (self.only is not None and xid not in self.only):
            return Reaction.COUNT
        for xids, reaction in _REACTIONS.items():
            if xid in xids:
                return reaction
        return Reaction.PROBE


_REACTIONS: Mapping[frozenset[int], Reaction] = {
    APPLICATION_XIDS: Reaction.COUNT,
    NOTED_XIDS: Reaction.NOTE,
    RESET_XIDS: Reaction.RESET,
}


class State(Enum):
    """What the kubelet is told of a card's devices; the value is its word for it."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardHealth:
    """The health of one card; made new, never changed."""

    state: State = State.HEALTHY
    reason: str = ""
    """Why it is unhealthy; empty when it is healthy."""
    watched: bool = True
    """Whether the card tells its events; else it is known by probes alone."""
    needs_reset: bool = False
    good_probes: int = 0
    first_good_seconds: float = 0.0
    """When the present row of good probes began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodProbe:
    """The card answered as it should."""

    at_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BadProbe:
    """The card did not answer as it should."""

    reason: str
    lost: bool = False
    """It is not there at all (off the bus, or no more in NVML's list)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalXid:
    """An XID of the reset row."""

    xid: int


Seen = GoodProbe | BadProbe | FatalXid


def after(health: CardHealth, seen: Seen, *, recovery_seconds: float) -> CardHealth:
    """Return the card's health after what was seen.

    `recovery_seconds` is the time that the row of good probes must span.
    """
    match seen:
        case FatalXid(xid=xid):
            return _unhealthy(health, f"XID {xid}", needs_reset=True)
        case BadProbe(reason=reason, lost=lost):
            # A card that was lost has had its reset, or is past it: probes decide from now on.
            still_needs_reset = health.needs_reset and not lost
            why = health.reason if still_needs_reset else reason
            return _unhealthy(health, why, needs_reset=still_needs_reset)
        case GoodProbe(at_seconds=at_seconds):
            return _after_good_probe(health, at_seconds, recovery_seconds)


def _unhealthy(health: CardHealth, reason: str, *, needs_reset: bool) -> CardHealth:
    return CardHealth(
        state=State.UNHEALTHY, reason=reason, watched=health.watched, needs_reset=needs_reset
    )


def _after_good_probe(health: CardHealth, at_seconds: float, recovery_seconds: float) -> CardHealth:
    if health.state is State.HEALTHY or health.needs_reset:
        return health
    first = health.first_good_seconds if health.good_probes else at_seconds
    probes = health.good_probes + 1
    if probes >= GOOD_PROBES_TO_RECOVER and at_seconds - first >= recovery_seconds:
        return CardHealth(watched=health.watched)
    return replace(health, good_probes=probes, first_good_seconds=first)
