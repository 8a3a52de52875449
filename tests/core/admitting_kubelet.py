"""A kubelet in the small: it lists a pod, admits it, and only then takes the next.

What its PodResources lists is what the real one does: init containers not at all,
devices only once their container was served, a refused pod no more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from hypothesis import strategies as st

from gpushare_plugin.core.association import (
    Admissions,
    Caller,
    ContainerDevices,
    Known,
    ListedPod,
    PodName,
    called,
    listed,
)


class Wants(Enum):
    """What a container asks of our resource."""

    NOTHING = "nothing"
    DEVICES = "devices"
    IN_INIT = "in an init container of the same name"


@dataclass(frozen=True, kw_only=True)
class Come:
    """A pod comes and is admitted, each call a while after the one before."""

    name: str
    wants: tuple[Wants, ...]
    refused: bool = False
    call_seconds: float = 0.01


@dataclass(frozen=True)
class Go:
    """A pod goes, if it is there."""

    name: str


@dataclass(frozen=True)
class Rest:
    """Nothing happens for a while."""

    seconds: float


@dataclass(frozen=True)
class Look:
    """The account is refreshed, outside any call."""


Step = Come | Go | Rest | Look

names = st.sampled_from("abc")
steps = st.lists(
    st.one_of(
        st.builds(
            Come,
            name=names,
            wants=st.lists(st.sampled_from(Wants), min_size=1, max_size=2).map(tuple),
            refused=st.booleans(),
            call_seconds=st.sampled_from((0.01, 1.0, 3.0)),
        ),
        st.builds(Go, names),
        st.builds(Rest, st.sampled_from((0.1, 2.5))),
        st.just(Look()),
    ),
    max_size=8,
)


def name_of(pod: str) -> PodName:
    return PodName(namespace="default", name=pod)


@dataclass
class AdmittingKubelet:
    """Plays steps; yields each call's pod and what we take it for."""

    pods: dict[str, list[bool]] = field(default_factory=dict)
    """Whether each listed container holds devices."""
    knowledge: Admissions = field(default_factory=Admissions)
    now_seconds: float = 10.0
    seen_holding: set[str] = field(default_factory=set)
    gone_unseen: set[str] = field(default_factory=set)
    """Pods that held nothing when last listed, and went since; see the module's rule 2."""

    def play(self, steps: list[Step]) -> Iterator[tuple[PodName, Caller]]:
        for step in steps:
            match step:
                case Come() if step.name not in self.pods.keys() | self.gone_unseen:
                    yield from self._admit(step)
                case Come():
                    pass  # the name is taken
                case Go(name):
                    self._remove(name)
                case Rest(seconds):
                    self.now_seconds += seconds
                case Look():
                    self._seen()
                    self.knowledge = listed(
                        self.knowledge, self.listing(), at_seconds=self.now_seconds
                    )

    def _admit(self, pod: Come) -> Iterator[tuple[PodName, Caller]]:
        holds = self.pods[pod.name] = [False] * len(pod.wants)
        asking = [n for n, wants in enumerate(pod.wants) if wants is not Wants.NOTHING]
        for n in sorted(asking, key=lambda n: pod.wants[n] is not Wants.IN_INIT):
            self.now_seconds += pod.call_seconds
            yield name_of(pod.name), self._call()
            holds[n] = pod.wants[n] is Wants.DEVICES
        if pod.refused and asking:
            self._remove(pod.name)

    def _call(self) -> Caller:
        self._seen()
        self.knowledge, caller = called(self.knowledge, self.listing(), at_seconds=self.now_seconds)
        if isinstance(caller, Known):
            self.seen_holding.add(caller.pod.name)
        return caller

    def _remove(self, name: str) -> None:
        if self.pods.pop(name, None) is not None and name not in self.seen_holding:
            self.gone_unseen.add(name)

    def _seen(self) -> None:
        self.seen_holding = {name for name, holds in self.pods.items() if any(holds)}
        self.gone_unseen.clear()

    def listing(self) -> list[ListedPod]:
        return [
            ListedPod(
                pod=name_of(name),
                containers=tuple(
                    ContainerDevices(name=f"c{n}", device_ids=(f"{name}-{n}",) if held else ())
                    for n, held in enumerate(holds)
                ),
            )
            for name, holds in self.pods.items()
        ]
