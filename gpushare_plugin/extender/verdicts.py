"""How a bind ends: for the metric, the log line, and the event that the user reads."""

from dataclasses import dataclass
from enum import Enum


class BindOutcome(Enum):
    """How it ended; the value is the metric's label."""

    BOUND = "bound"
    ALREADY_BOUND = "already_bound"
    """To that very node."""
    BOUND_ELSEWHERE = "bound_elsewhere"
    NO_ROOM = "no_room"
    """What filter found is taken meanwhile."""
    UNFIT = "unfit"
    """Nothing that goes would make it fit."""
    BAD_POD = "bad_pod"
    """It asks for what no node could give."""
    POD_GONE = "pod_gone"
    REFUSED = "refused"
    """By the API server."""
    POD_UNREAD = "pod_unread"
    """The watch does not know it (yet), and the API server does not tell."""
    HELD_BACK = "held_back"
    """Not sent: no time was left, or we may not write just now."""
    UNKNOWN = "unknown"
    """The pod stays counted until it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The end of one bind."""

    outcome: BindOutcome
    error: str = ""
    """For the user; empty for a pod that is bound as was asked."""


def bound_to(pod: str, node_name: str, *, asked: str) -> Verdict:
    """Return the verdict on a pod that is bound already."""
    if node_name == asked:
        return Verdict(outcome=BindOutcome.ALREADY_BOUND)
    return Verdict(
        outcome=BindOutcome.BOUND_ELSEWHERE,
        error=f"pod {pod} is bound to {node_name} already, not to {asked}",
    )


def pod_gone(pod: str, uid: str) -> Verdict:
    """Return the verdict on a pod that is not there any more."""
    return Verdict(
        outcome=BindOutcome.POD_GONE,
        error=f"pod {pod} with UID {uid} is gone; another one of its name is another pod",
    )
