"""The pods that filter refused on every node it was asked about, for who helps them.

Rule 1: what is remembered is bounded, and goes when the pod is bound or gone, or fits.
Rule 2: filter pays for it with one write into a dictionary.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from gpushare_plugin.core.pods import Pod, counts
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtered

MOST_PODS = 1000
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
        self._listeners: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._pods)

    def asked(self, pod: Pod, answer: Filtered) -> None:
        """Take what filter answered for a pod."""
        if answer.fits_somewhere or not (answer.failed or answer.unresolvable):
            self._pods.pop(pod.uid, None)
            return
        self._pods[pod.uid] = WaitingPod(
            pod=pod,
            answer=answer,
            asked_at_seconds=self._clock(),
            generation=self._cluster.generation,
        )
        self._pods.move_to_end(pod.uid)
        if len(self._pods) > MOST_PODS:
            self._pods.popitem(last=False)
        for listener in self._listeners:
            listener()

    def on_refusal(self, listener: Callable[[], None]) -> None:
        """Call this each time that a pod was refused everywhere."""
        self._listeners.append(listener)

    def forget(self, waiting: WaitingPod) -> None:
        """Take a pod out, unless it was asked about again."""
        if self._pods.get(waiting.pod.uid) is waiting:
            del self._pods[waiting.pod.uid]

    def current(self) -> list[WaitingPod]:
        """Return those that wait still, who was asked about longest ago first."""
        for waiting in [each for each in self._pods.values() if not self._waits(each)]:
            self.forget(waiting)
        return list(self._pods.values())

    def _waits(self, waiting: WaitingPod) -> bool:
        known = self._cluster.pods.get(waiting.pod.uid)
        if known is None:
            return self._clock() - waiting.asked_at_seconds < UNKNOWN_SECONDS
        return not (counts(known) or known.node_name or known.terminating)
