"""What a pod's spec and annotations say of its place: its wish, for the kubelet's calls.

Rule 1: amounts come from the spec; the annotation is read for the chosen cards alone.
Rule 2: an annotation that does not parse is a fault to be told; the pod is then placed
as if none had been chosen.
Rule 3: PodResources knows no UID. What a pod of the same name was given before tells the two
apart: a spec whose containers have all been given their devices is not the one of a pod that
is being admitted, and a listed pod that holds another UID's devices is not the one of a spec.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpushare_plugin.core.association import ListedPod, PodName, is_of
from gpushare_plugin.core.pods import ContainerKind, Phase, Pod, counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Specs:
    """The pods of this node whose specs are known, by name."""

    by_name: Mapping[PodName, Pod]
    owners: Mapping[str, str] = field(default_factory=dict)
    """By device ID: the UID of the pod that it was given to, as far as that is known."""
    served: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By resource: the UIDs of pods whose containers have all been given their devices."""

    @classmethod
    def of(
        cls,
        pods: Iterable[Pod],
        *,
        owners: Mapping[str, str] | None = None,
        served: Mapping[str, Collection[str]] | None = None,
    ) -> "Specs":
        """Return the specs of the pods that count."""
        return cls(
            by_name={
                PodName(namespace=pod.namespace, name=pod.name): pod for pod in pods if counts(pod)
            },
            owners={} if owners is None else owners,
            served={} if served is None else served,
        )

    def awaits_admission(self, name: PodName, resource: str) -> bool:
        """Say whether the pod of that name is known, and may be one that is being admitted.

        One that runs, is terminating, or was given all that it asks for is past that: the
        kubelet has another one of its name, which the watch has not told of yet.
        """
        pod = self.by_name.get(name)
        return pod is not None and self._awaits_admission(pod, resource)

    def ends_unserved(self, name: PodName, resource: str) -> bool:
        """Say whether the pod of that name is to end, and was not given all that it asks for.

        Its kubelet may be admitting it all the same: it hears of the end in its own time.
        """
        pod = self.by_name.get(name)
        return pod is not None and self._awaits_admission(pod, resource, ends=True)

    def with_waits(self, listed: Iterable[ListedPod], resource: str) -> tuple[ListedPod, ...]:
        """Return the listed pods, each with whether it lacks what its spec asks for."""
        return tuple(replace(each, waits=self._waits(each, resource)) for each in listed)

    def _waits(self, listed: ListedPod, resource: str) -> bool | None:
        pod = self.by_name.get(listed.pod)
        if pod is None:
            return None
        if not is_of(listed, pod.uid, self.owners):
            # The pod of that name before: it was admitted once, and only has not gone yet.
            return False
        return _waits(listed, pod, resource, awaits=self._awaits_admission(pod, resource))

    def _awaits_admission(self, pod: Pod, resource: str, *, ends: bool = False) -> bool:
        served = pod.uid in self.served.get(resource, ())
        return pod.phase is Phase.PENDING and pod.terminating is ends and not served


def _waits(listed: ListedPod, pod: Pod, resource: str, *, awaits: bool) -> bool | None:
    asking = [each for each in pod.containers if each.requests.get(resource, 0) > 0]
    if not asking:
        return False
    staying = {each.name for each in asking if each.kind is not ContainerKind.INIT}
    if not staying:
        # Init containers are never listed: whether they were served, nobody tells.
        return None if awaits else False
    served = {each.name for each in listed.containers if each.device_ids}
    if staying <= served:
        return False
    return True if awaits else None
