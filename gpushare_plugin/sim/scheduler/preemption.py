"""Who would have to go from a node for a pod, and which node is the best to take.

Facts: DefaultPreemption and the preemption evaluator of 1.36. Only the scheduler's own filters
are looked at: a node that these find good enough has no victims, whatever an extender said
(kubernetes/kubernetes#139270). Disruption budgets are not simulated. Pure.
"""

from collections.abc import Callable, Mapping

from gpushare_plugin.sim.scheduler.cluster import Room
from gpushare_plugin.sim.scheduler.diagnosis import NO_VICTIMS
from gpushare_plugin.sim.scheduler.extender_wire import Victims
from gpushare_plugin.sim.scheduler.filters import Refusal
from gpushare_plugin.sim.scheduler.objects import PodInfo

BY_PREEMPTION = "PreemptionByScheduler"
_LOWEST_PRIORITY = -(2**31)

Check = Callable[[Room], Refusal | None]
"""What the own filters say of the pod on a node."""


def ineligible(pod: PodInfo, promised: Room | None, refused: Refusal | None) -> str:
    """Return why the pod may not preempt just now; empty if it may.

    `promised` is the node of its last promise, `refused` what was said of that node.
    """
    if pod.spec.get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    if promised is None or (refused is not None and not refused.resolvable):
        return ""
    if any(each.priority < pod.priority and _preempted(each) for each in promised.pods):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def victims_on(pod: PodInfo, room: Room, check: Check) -> Victims | Refusal:
    """Return the fewest pods of lower priority that must go, or why it does not help.

    No victims at all: the pod fits as far as the own filters can tell.
    """
    lower = sorted((each for each in room.pods if each.priority < pod.priority), key=_importance)
    if not lower:
        return Refusal(reasons=(NO_VICTIMS,), plugin="", resolvable=False)
    gone = frozenset(each.uid for each in lower)
    if (found := check(room.without(gone))) is not None:
        return found
    victims = []
    for each in lower:
        spared = gone - {each.uid}
        if check(room.without(spared)) is None:
            gone = spared
        else:
            victims.append(each)
    return Victims(pods=tuple(victims))


def best_node(victims: Mapping[str, Victims]) -> str:
    """Return the node where least is lost; the first of equal ones."""
    return min(victims, key=lambda name: _loss(victims[name]))


def _importance(pod: PodInfo) -> tuple[int, str]:
    """The most important first: the highest priority, then the longest running."""
    return -pod.priority, pod.started


def _loss(victims: Victims) -> tuple[int, int, int, int, "_Later"]:
    highest = max(pod.priority for pod in victims.pods)
    return (
        victims.disruptions,
        victims.pods[0].priority,
        sum(pod.priority - _LOWEST_PRIORITY for pod in victims.pods),
        len(victims.pods),
        _Later(min(pod.started for pod in victims.pods if pod.priority == highest)),
    )


class _Later(str):
    """A moment, the later the smaller."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) > str(other)


def _preempted(pod: PodInfo) -> bool:
    return pod.terminating and any(
        each["type"] == "DisruptionTarget" and each.get("reason") == BY_PREEMPTION
        for each in pod.status.get("conditions") or ()
    )
