"""The pods that filter refused on every node it was asked about, for who helps them.

Rule 1: what is remembered is bounded, and goes when the pod is bound or gone, or fits.
Rule 2: filter pays for it with a few writes into dictionaries.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from gpushare_plugin.core.pods import Pod, counts
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtered

MOST_PODS = 1000
MOST_NAMES = 400_000
"""Of nodes, over all answers that are remembered: one takes about 100 bytes."""
UNKNOWN_SECONDS = 10.0
"""So long a pod stays of which the watch does not tell: it may be new, or gone."""


@dataclass(slots=True, kw_only=True)
class WaitingPod:
    """One pod, and what it was told last."""

    pod: Pod
    answer: Filtered
    asked_at_seconds: float
    generation: int
    """Of the cluster: later changes may have made room for it."""

    @property
    def names(self) -> int:
        """How many nodes the scheduler asked about."""
        return len(self.answer.failed) + len(self.answer.unresolvable)

    def was_refused_on(self, node_name: str) -> bool:
        """Say whether the scheduler asked about that node."""
        return node_name in self.answer.failed or node_name in self.answer.unresolvable


class WaitingPods:
    """Remembers who was refused."""

    def __init__(self, cluster: Cluster, *, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._cluster = cluster
        self._clock = clock
        self._pods: OrderedDict[str, WaitingPod] = OrderedDict()
        # Many pods are often told the same: their answer is one object.
        self._told: Counter[int] = Counter()
        self._names = 0
        self._listeners: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._pods)

    def asked(self, pod: Pod, answer: Filtered) -> None:
        """Take what filter answered for a pod."""
        self._take_out(pod.uid)
        if answer.fits_somewhere or not (answer.failed or answer.unresolvable):
            return
        self._put(
            WaitingPod(
                pod=pod,
                answer=answer,
                asked_at_seconds=self._clock(),
                generation=self._cluster.generation,
            )
        )
        while len(self._pods) > MOST_PODS or self._names > MOST_NAMES:
            self._take_out(next(iter(self._pods)))
        for listener in self._listeners:
            listener()

    def on_refusal(self, listener: Callable[[], None]) -> None:
        """Call this each time that a pod was refused everywhere."""
        self._listeners.append(listener)

    def forget(self, waiting: WaitingPod) -> None:
        """Take a pod out, unless it was asked about again."""
        if self._pods.get(waiting.pod.uid) is waiting:
            self._take_out(waiting.pod.uid)

    def current(self) -> list[WaitingPod]:
        """Return those that wait still, who was asked about longest ago first."""
        for waiting in [each for each in self._pods.values() if not self._waits(each)]:
            self.forget(waiting)
        return list(self._pods.values())

    def _put(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.uid] = waiting
        key = id(waiting.answer)
        self._names += 0 if self._told[key] else waiting.names
        self._told[key] += 1

    def _take_out(self, uid: str) -> None:
        gone = self._pods.pop(uid, None)
        if gone is None:
            return
        key = id(gone.answer)
        self._told[key] -= 1
        if not self._told[key]:
            del self._told[key]
            self._names -= gone.names

    def _waits(self, waiting: WaitingPod) -> bool:
        known = self._cluster.pods.get(waiting.pod.uid)
        if known is None:
            return self._clock() - waiting.asked_at_seconds < UNKNOWN_SECONDS
        return not (counts(known) or known.node_name or known.terminating)
