"""What a simulated scheduler shows of itself: values for tests, the demo and benchmarks.

Rule: everything here can travel as JSON, so nothing but dataclasses, strings, numbers,
tuples and mappings by string.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Result(StrEnum):
    """How one attempt at a pod ended."""

    BOUND = "bound"
    UNSCHEDULABLE = "unschedulable"
    """No node fits."""
    ERROR = "error"
    """Something broke: an extender, the binding, the API server."""
    SKIPPED = "skipped"
    """The pod is being deleted, or has a node already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderCall:
    """One call of an extender, written down when it is over."""

    number: int
    """Counts from 1, in the order of the ends."""
    verb: str
    """As configured: the last part of the URL."""
    url: str
    pod: str
    """Its namespace and name."""
    request: str
    """Cut off where the settings say, as is the answer."""
    answer: str
    request_bytes: int
    answer_bytes: int
    status: int
    """0: there was no answer."""
    seconds: float
    error: str
    """What the scheduler made of it; empty if it was good."""

    @property
    def request_json(self) -> Any:
        """The request's JSON."""
        return json.loads(self.request)

    @property
    def answer_json(self) -> Any:
        """The answer's JSON."""
        return json.loads(self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The last attempt at one pod."""

    attempt: int
    result: Result
    node: str = ""
    """Where it was bound, or was to be bound."""
    message: str = ""
    """Why not: the text of the event."""
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    """The pods that were deleted for it, by namespace and name."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """The sum of all scores by node; empty where only one node was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedPodState:
    """One pod that waits for its turn."""

    pod: str
    """Its namespace and name."""
    priority: int
    attempts: int
    rejectors: tuple[str, ...]
    """Whose refusals it waits for; none after an error."""
    backoff_seconds: float
    """What is left of it; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """All of it, at one moment."""

    version: int
    """Grows with every change."""
    identity: str
    synced: bool
    """Whether it knows the pods and nodes."""
    leads: bool
    paused: bool
    nodes: int
    pods: int
    active: tuple[QueuedPodState, ...]
    backing_off: tuple[QueuedPodState, ...]
    unschedulable: tuple[QueuedPodState, ...]
    scheduling: str
    """The pod whose cycle runs now."""
    binding: tuple[str, ...]
    """The pods whose binding is on its way."""
    assumed: Mapping[str, str]
    """Nodes by pod, for pods that the watch does not show bound yet."""
    nominated: Mapping[str, str]
    """Promised nodes by pod."""
    counts: Mapping[str, int]
    """How many attempts ended in which result, and `preempted` pods."""
    calls: int
    """How many calls of extenders so far."""
    outcomes: Mapping[str, Outcome]
    """By pod: its namespace and name."""
