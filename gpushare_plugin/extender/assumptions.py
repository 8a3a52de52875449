"""Pods that are being bound by us, counted until the watch tells what became of them.

    assume ──▶ IN_FLIGHT ──2xx──▶ CONFIRMED ──the watch shows the pod──▶ (settled)
                  │  └─refused─▶ (settled)         ▲
                  └─outcome unknown─▶ DOUBTFUL ────┘ a GET shows it bound

Rule 1: one only goes when something was *seen*: the pod bound, gone, or unbound so late
that no request of ours can still be carried out. Never by a timer.
Rule 2: a pod has one node, so the first sight of where it is bound ends all its others.
Rule 3: who holds one that was settled meanwhile changes nothing any more.
Rule 4: a request that was refused says nothing of an earlier one whose outcome is unknown.
Knows no clock and no I/O.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from gpushare_plugin.core.pods import Pod, counts


class State(Enum):
    """How sure it is that the pod is bound."""

    IN_FLIGHT = "in_flight"
    CONFIRMED = "confirmed"
    DOUBTFUL = "doubtful"
    """The request's outcome is not known; it may be carried out later still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One pod on one node, as it will be once it is bound."""

    number: int
    pod: Pod
    """With the node and the annotations of the Binding."""
    cards: tuple[int, ...]
    """The indices of the chosen cards."""
    state: State = State.IN_FLIGHT
    since_seconds: float
    """When it came to be in its state, on the monotonic clock."""
    doubted_seconds: float | None = None
    """When the last request of an unknown outcome was given up; None if there was none."""


class Assumptions:
    """All that is assumed, by pod and by node; calls `touched` with a node whose pods changed."""

    def __init__(self, touched: Callable[[str], None]) -> None:
        self._touched = touched
        self._listeners: list[Callable[[], None]] = []
        self._number = 0
        self._of: dict[str, dict[int, Assumption]] = {}
        self._on: dict[str, dict[int, Assumption]] = {}

    def __iter__(self) -> Iterator[Assumption]:
        return iter([each for found in self._of.values() for each in found.values()])

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def on_question(self, listener: Callable[[], None]) -> None:
        """Call this whenever there is one more to ask after: confirmed, or doubtful."""
        self._listeners.append(listener)

    def of(self, uid: str) -> tuple[Assumption, ...]:
        """Return what is assumed of a pod."""
        return tuple(self._of.get(uid, {}).values())

    def on(self, node_name: str) -> Iterable[Assumption]:
        """Return what is assumed on a node."""
        return self._on.get(node_name, {}).values()

    def holds(self, assumption: Assumption) -> bool:
        """Say whether this one, in whatever state, still stands."""
        return assumption.number in self._of.get(assumption.pod.uid, {})

    def assume(self, pod: Pod, cards: tuple[int, ...], *, now_seconds: float) -> Assumption:
        """Count the pod, as it will be once it is bound.

        It takes the place of a doubtful one on the same cards: the one request or the other
        will be carried out. One on other cards goes on being counted beside it.
        """
        doubted_seconds = None
        for each in self.of(pod.uid):
            if each.pod.node_name == pod.node_name and each.cards == cards:
                doubted_seconds = each.doubted_seconds
                self._remove(each)
        self._number += 1
        made = Assumption(
            number=self._number,
            pod=pod,
            cards=cards,
            since_seconds=now_seconds,
            doubted_seconds=doubted_seconds,
        )
        self._put(made)
        return made

    def found(self, assumption: Assumption, pod: Pod, *, now_seconds: float) -> None:
        """The pod is so: bound, by whomever and to wherever, or ended."""
        if not self.holds(assumption):
            return
        self.settle(pod.uid)
        if counts(pod):
            state = State.CONFIRMED
            self._put(replace(assumption, pod=pod, state=state, since_seconds=now_seconds))

    def doubt(self, assumption: Assumption, *, now_seconds: float) -> None:
        """The outcome of the request is not known."""
        if self.holds(assumption):
            self._doubt(assumption, now_seconds)

    def refused(self, assumption: Assumption) -> None:
        """The request was not carried out, and will not be."""
        if self.holds(assumption):
            if assumption.doubted_seconds is None:
                self._remove(assumption)
            else:
                self._doubt(assumption, assumption.doubted_seconds)

    def release(self, assumption: Assumption) -> None:
        """Nothing that was ever asked for it can be carried out any more."""
        if self.holds(assumption):
            self._remove(assumption)

    def settle(self, uid: str) -> None:
        """The pod was seen bound by the watch, which counts it from now on; or it is gone."""
        for each in self.of(uid):
            self._remove(each)

    def _doubt(self, assumption: Assumption, since_seconds: float) -> None:
        state = State.DOUBTFUL
        self._put(
            replace(
                assumption,
                state=state,
                since_seconds=since_seconds,
                doubted_seconds=since_seconds,
            )
        )

    def _put(self, made: Assumption) -> None:
        self._of.setdefault(made.pod.uid, {})[made.number] = made
        self._on.setdefault(made.pod.node_name, {})[made.number] = made
        self._touched(made.pod.node_name)
        if made.state is not State.IN_FLIGHT:
            for listener in self._listeners:
                listener()

    def _remove(self, gone: Assumption) -> None:
        for table, key in ((self._of, gone.pod.uid), (self._on, gone.pod.node_name)):
            del table[key][gone.number]
            if not table[key]:
                del table[key]
        self._touched(gone.pod.node_name)
