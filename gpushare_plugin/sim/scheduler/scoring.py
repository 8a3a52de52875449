"""The scheduler's own score of a node, 0 to 100: LeastAllocated or MostAllocated.

Facts: pkg/scheduler/framework/plugins/noderesources; resources that the node has none of, and
extended resources that the pod does not ask for, do not count. Whole numbers, as there. Pure.
"""

from collections.abc import Mapping

from gpushare_plugin.sim.scheduler.cluster import Room
from gpushare_plugin.sim.scheduler.objects import PodInfo

MAX_NODE_SCORE = 100
MAX_EXTENDER_SCORE = 10
_ASSUMED_REQUESTS = {"cpu": 100, "memory": 200 * 1024 * 1024 * 1000}
"""What a pod that asks for nothing is taken to use, in thousandths."""


def own_score(pod: PodInfo, room: Room, *, weights: Mapping[str, int], most_allocated: bool) -> int:
    """Return the weighted mean over the resources."""
    total = weight_sum = 0
    for name, weight in weights.items():
        allocatable = room.node.allocatable.get(name, 0)
        if not allocatable or (name not in _ASSUMED_REQUESTS and not pod.requests.get(name)):
            continue
        used = sum(_asked(each, name) for each in (*room.pods, pod))
        total += weight * _score(used, allocatable, most_allocated=most_allocated)
        weight_sum += weight
    return total // weight_sum if weight_sum else 0


def _asked(pod: PodInfo, name: str) -> int:
    return pod.requests.get(name) or _ASSUMED_REQUESTS.get(name, 0)


def _score(used: int, allocatable: int, *, most_allocated: bool) -> int:
    if most_allocated:
        return min(used, allocatable) * MAX_NODE_SCORE // allocatable
    return max(allocatable - used, 0) * MAX_NODE_SCORE // allocatable
