"""The scheduler's own filters, in the order of the default plugins; the first refusal counts.

Facts: pkg/scheduler/framework/plugins of 1.36: nodeunschedulable, tainttoleration, nodeaffinity
(its node selector), noderesources. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.scheduler.cluster import Room
from gpushare_plugin.sim.scheduler.objects import PODS_RESOURCE, Json, NodeInfo, PodInfo

EXTENDER = "Extender"
"""In the place of a plugin's name: an extender refused."""
FIT = "NodeResourcesFit"
TAINTS = "TaintToleration"
UNSCHEDULABLE = "NodeUnschedulable"
AFFINITY = "NodeAffinity"
_UNSCHEDULABLE_TAINT: Json = {
    "key": "node.kubernetes.io/unschedulable",
    "effect": "NoSchedule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a node is not for a pod."""

    reasons: tuple[str, ...]
    plugin: str
    resolvable: bool
    """Whether the end of other pods could help (Unschedulable), or not
    (UnschedulableAndUnresolvable)."""


def refusal(
    pod: PodInfo, room: Room, *, left_out: frozenset[str], promised: Iterable[PodInfo] = ()
) -> Refusal | None:
    """Return why the pod may not go to the node, or None; `left_out` are resources not looked at.

    With pods to whom the node is promised it must fit beside them, and without them too.
    """
    beside = tuple(promised)
    if beside and (found := refusal(pod, room.beside(beside), left_out=left_out)):
        return found
    return (
        _unschedulable(pod, room.node)
        or _tainted(pod, room.node)
        or _not_selected(pod, room.node)
        or _too_full(pod, room, left_out)
    )


def _unschedulable(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    if not node.unschedulable or _tolerated(_UNSCHEDULABLE_TAINT, pod):
        return None
    return Refusal(reasons=("node(s) were unschedulable",), plugin=UNSCHEDULABLE, resolvable=False)


def _tainted(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    effects = {"NoSchedule", "NoExecute"}
    if all(t.get("effect") not in effects or _tolerated(t, pod) for t in node.taints):
        return None
    return Refusal(reasons=("node(s) had untolerated taint(s)",), plugin=TAINTS, resolvable=False)


def _not_selected(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    selector: Mapping[str, str] = pod.spec.get("nodeSelector") or {}
    if selector.items() <= node.labels.items():
        return None
    return Refusal(
        reasons=("node(s) didn't match Pod's node affinity/selector",),
        plugin=AFFINITY,
        resolvable=False,
    )


def _too_full(pod: PodInfo, room: Room, left_out: frozenset[str]) -> Refusal | None:
    allocatable = room.node.allocatable
    reasons, resolvable = [], True
    # A node of a test that says nothing of pods takes any number of them.
    if PODS_RESOURCE in allocatable and (
        room.used[PODS_RESOURCE] + 1000 > allocatable[PODS_RESOURCE]
    ):
        reasons.append("Too many pods")
    for name, asked in pod.requests.items():
        total = allocatable.get(name, 0)
        if asked and name not in left_out and asked > total - room.used.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and asked <= total
    if not reasons:
        return None
    return Refusal(reasons=tuple(reasons), plugin=FIT, resolvable=resolvable)


def _tolerated(taint: Json, pod: PodInfo) -> bool:
    return any(_tolerates(each, taint) for each in pod.spec.get("tolerations") or ())


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    if toleration.get("key") not in {None, "", taint.get("key")}:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))
