"""Which pod does the kubelet's present call belong to?

The kubelet lists a pod before it admits it, and admits one at a time (measured on
1.36). So while a call of ours runs, no pod was listed after the one it is for, and
some container of that one holds none of our devices yet.

Rule 1: known, none and unclear are three answers; nothing is guessed.
Rule 2: pods are told apart by namespace and name: PodResources knows no UID. A pod
that held devices, or was named here, and holds none any more is another one of the
same name; so is one more without devices, where two of a name are listed. One that goes
and comes again between two listings, and held nothing in the first, is taken for the same.
Rule 3: a pod whose spec is known waits only while a container lacks what it asks for.
Of pods whose specs are not known, none of those first listed together can be told from
those that never ask for a device.
Rule 4: a pod that waits by its spec, but was listed before one of unknown spec, is not
known to be the caller: it may have been refused, or its spec may be another's by now.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

SETTLED_SECONDS = 2.0
"""A pod listed for longer than this has been admitted or refused (an admission takes ms)."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodName:
    """A pod as PodResources names it."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDevices:
    """The devices of our resource that one container holds."""

    name: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPod:
    """One pod as PodResources lists it, with the devices of our resource alone."""

    pod: PodName
    containers: tuple[ContainerDevices, ...]
    waits: bool | None = None
    """Whether the pod's spec says that a container lacks what it asks for; None if unknown."""

    @property
    def holds_devices(self) -> bool:
        """Whether some container holds a device of ours."""
        return any(each.device_ids for each in self.containers)

    @property
    def lacks_devices(self) -> bool:
        """Whether some container holds none; init containers are not listed at all."""
        if self.waits is not None:
            return self.waits
        return not self.containers or any(not each.device_ids for each in self.containers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The call is this pod's."""

    pod: PodName


@dataclass(frozen=True, slots=True)
class NoPod:
    """No listed pod can be the one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """Several pods can be the one."""

    pods: tuple[PodName, ...]


Caller = Known | NoPod | Unclear


def is_of(listed: ListedPod, uid: str, owners: Mapping[str, str]) -> bool:
    """Say whether the listed pod may be the one of that UID: no device of it is another's.

    `owners` says by device ID to which pod's UID a device was given, as far as that is known.
    """
    return all(owners.get(each, uid) == uid for each in _device_ids(listed))


def given_to(listed: ListedPod, uid: str, owners: Mapping[str, str]) -> bool:
    """Say whether the listed pod is surely the one of that UID: it was given all its devices."""
    device_ids = _device_ids(listed)
    return bool(device_ids) and all(owners.get(each) == uid for each in device_ids)


def _device_ids(listed: ListedPod) -> list[str]:
    return [each for container in listed.containers for each in container.device_ids]


NO_POD = NoPod()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admissions:
    """What earlier listings told; made new, never changed."""

    first_listed_seconds: Mapping[PodName, float] = field(default_factory=dict)
    lacking: Mapping[PodName, int] = field(default_factory=dict)
    """How many pods of a name hold no device, less one where a call of theirs was answered."""
    last: PodName | None = None
    last_call_seconds: float = 0.0

    def newest(self) -> frozenset[PodName]:
        """Return the pods that were first listed last; all others have been decided on."""
        newest_seconds = max(self.first_listed_seconds.values(), default=0.0)
        return frozenset(
            name for name, first in self.first_listed_seconds.items() if first == newest_seconds
        )


def listed(before: Admissions, pods: Iterable[ListedPod], *, at_seconds: float) -> Admissions:
    """Return what is known after a listing outside any call."""
    pods = tuple(pods)
    lacking = Counter(pod.pod for pod in pods if not pod.holds_devices)
    # Counted: a pod that was deleted by force may be listed beside the next one of its name.
    reborn = {name for name, count in lacking.items() if count > before.lacking.get(name, 0)}
    names = {pod.pod for pod in pods}
    first = {
        name: at_seconds if name in reborn else before.first_listed_seconds.get(name, at_seconds)
        for name in names
    }
    return replace(
        before,
        first_listed_seconds=first,
        lacking=lacking,
        last=before.last if before.last in names else None,
    )


def called(
    before: Admissions, pods: Iterable[ListedPod], *, at_seconds: float
) -> tuple[Admissions, Caller]:
    """Return what is known after a listing during a call, and whose call it is."""
    pods = tuple(pods)
    now = listed(before, pods, at_seconds=at_seconds)
    waiting = sorted({pod.pod for pod in pods if pod.waits})
    possible = now.newest() & {pod.pod for pod in pods if pod.lacks_devices}
    if len(waiting) == 1:
        if not possible or waiting[0] in possible:
            return _known(now, waiting[0], at_seconds)
        return now, Unclear(pods=tuple(sorted({*waiting, *possible})))
    settled = {
        name
        for name, first_seconds in now.first_listed_seconds.items()
        if at_seconds - first_seconds > SETTLED_SECONDS
    }
    candidates = possible - settled
    fresh = at_seconds - now.last_call_seconds <= SETTLED_SECONDS
    if not candidates and now.last in possible and fresh:
        # A further container of the pod whose call was answered just before.
        candidates = frozenset({now.last})
    match sorted(candidates):
        case []:
            return now, NoPod()
        case [pod]:
            return _known(now, pod, at_seconds)
        case several:
            return now, Unclear(pods=tuple(several))


def _known(now: Admissions, pod: PodName, at_seconds: float) -> tuple[Admissions, Known]:
    # It holds devices once this call is answered, listed or not.
    lacking = {**now.lacking, pod: max(0, now.lacking.get(pod, 0) - 1)}
    return replace(now, lacking=lacking, last=pod, last_call_seconds=at_seconds), Known(pod=pod)
