"""What can bring a refused pod back: cluster events, and who cares for which.

Facts: pkg/scheduler/framework/events.go and the plugins' EventsToRegister in 1.36. An extender
cares for every event (kubernetes/kubernetes#122019). Left out: what a plugin finds out by
looking closer at an event, such as whether the pod that ended held what is missing. Pure.
"""

from collections.abc import Mapping
from enum import Enum, auto

from gpushare_plugin.sim.scheduler.filters import AFFINITY, EXTENDER, FIT, TAINTS, UNSCHEDULABLE
from gpushare_plugin.sim.scheduler.objects import NodeInfo, PodInfo


class Happening(Enum):
    """Something that was seen, or done."""

    POD_DELETED = auto()
    """A bound or assumed pod ended, is gone or was forgotten."""
    NODE_ADDED = auto()
    NODE_DELETED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_CONDITIONS = auto()
    NODE_ANNOTATIONS = auto()
    OWN_UPDATE = auto()
    """The pod itself changed: an annotation, a label, its status."""
    OWN_SCALE_DOWN = auto()
    OWN_TOLERATION = auto()


_EVERYTHING = frozenset(Happening)
_CARES: Mapping[str, frozenset[Happening]] = {
    EXTENDER: _EVERYTHING,
    FIT: frozenset(
        {
            Happening.POD_DELETED,
            Happening.NODE_ADDED,
            Happening.NODE_ALLOCATABLE,
            Happening.OWN_SCALE_DOWN,
        }
    ),
    TAINTS: frozenset({Happening.NODE_ADDED, Happening.NODE_TAINTS, Happening.OWN_TOLERATION}),
    UNSCHEDULABLE: frozenset(
        {Happening.NODE_ADDED, Happening.NODE_TAINTS, Happening.OWN_TOLERATION}
    ),
    AFFINITY: frozenset({Happening.NODE_ADDED, Happening.NODE_LABELS}),
}


def worth_a_try(
    rejectors: frozenset[str], happening: Happening, *, requeue_on_delete: bool
) -> bool:
    """Whether a pod that these refused may fit now."""
    if happening is Happening.POD_DELETED and not requeue_on_delete:
        rejectors -= {EXTENDER}
    return any(happening in _CARES[each] for each in rejectors)


def node_happenings(before: NodeInfo, after: NodeInfo) -> frozenset[Happening]:
    """Return what changed of a node; nothing for a heartbeat."""
    changes = {
        Happening.NODE_ALLOCATABLE: before.allocatable != after.allocatable,
        Happening.NODE_LABELS: before.labels != after.labels,
        Happening.NODE_ANNOTATIONS: before.annotations != after.annotations,
        Happening.NODE_CONDITIONS: before.conditions != after.conditions,
        Happening.NODE_TAINTS: before.taints != after.taints
        or (before.unschedulable and not after.unschedulable),
    }
    return frozenset(each for each, changed in changes.items() if changed)


def own_happenings(before: PodInfo, after: PodInfo) -> frozenset[Happening]:
    """Return what changed of a waiting pod; a plain update where it is nothing special."""
    found = set()
    if any(after.requests.get(name, 0) < asked for name, asked in before.requests.items()):
        found.add(Happening.OWN_SCALE_DOWN)
    tolerations = [len(each.spec.get("tolerations") or ()) for each in (before, after)]
    if tolerations[0] != tolerations[1]:
        found.add(Happening.OWN_TOLERATION)
    return frozenset(found or {Happening.OWN_UPDATE})
