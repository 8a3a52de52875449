"""What a pod's spec and annotations say of its place: its wish, for the kubelet's calls.

Rule 1: amounts come from the spec; the annotation is read for the chosen cards alone.
Rule 2: an annotation that does not parse is a fault to be told; the pod is then placed
as if none had been chosen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpushare_plugin.core.association import ListedPod, PodName
from gpushare_plugin.core.pods import ContainerKind, Phase, Pod, counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Specs:
    """The pods of this node whose specs are known, by name."""

    by_name: Mapping[PodName, Pod]

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "Specs":
        """Return the specs of the pods that count."""
        return cls(
            by_name={
                PodName(namespace=pod.namespace, name=pod.name): pod for pod in pods if counts(pod)
            }
        )

    def awaits_admission(self, name: PodName) -> bool:
        """Say whether the pod of that name is known, and may be one that is being admitted.

        One that runs or is terminating is past that: the kubelet has another one of its
        name, which the watch has not told of yet.
        """
        pod = self.by_name.get(name)
        return pod is not None and _awaits_admission(pod)

    def with_waits(self, listed: Iterable[ListedPod], resource: str) -> tuple[ListedPod, ...]:
        """Return the listed pods, each with whether it lacks what its spec asks for."""
        return tuple(
            replace(each, waits=_waits(each, self.by_name.get(each.pod), resource))
            for each in listed
        )


def _waits(listed: ListedPod, pod: Pod | None, resource: str) -> bool | None:
    if pod is None:
        return None
    asking = [each for each in pod.containers if each.requests.get(resource, 0) > 0]
    if not asking:
        return False
    staying = {each.name for each in asking if each.kind is not ContainerKind.INIT}
    if not staying:
        # Init containers are never listed: whether they were served, nobody tells.
        return None if _awaits_admission(pod) else False
    served = {each.name for each in listed.containers if each.device_ids}
    if staying <= served:
        return False
    return True if _awaits_admission(pod) else None


def _awaits_admission(pod: Pod) -> bool:
    return pod.phase is Phase.PENDING and not pod.terminating
