"""Pods of random sizes and shapes, the same for the same seed.

Rule: the numbers here are worked out apart from the product's own functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

RESOURCE = "aliyun.com/gpu-mem"
SCHEDULER = "gpushare-scheduler"
TOO_LARGE_UNITS = range(90, 200)
"""More than any card has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """What one pod asks for."""

    name: str
    mains: tuple[int, ...]
    before: tuple[tuple[int, bool], ...] = ()
    """Init containers in order: their units, and whether each is a sidecar."""
    cards: int = 1
    policy: str = ""

    @property
    def stays(self) -> dict[str, int]:
        """The units of each container that stays, by name; those that ask for none are not here."""
        named = {f"i{n}": units for n, (units, stays) in enumerate(self.before) if stays}
        return named | {f"c{n}": units for n, units in enumerate(self.mains) if units}

    @property
    def units(self) -> int:
        """The most that it holds at one time, and so all along."""
        most = beside = 0
        for units, stays in self.before:
            most = max(most, beside + units)
            beside += units if stays else 0
        return max(most, beside + sum(self.mains))

    @property
    def object(self) -> dict[str, Any]:
        """The pod as a user makes it."""
        annotations = {"gpushare.io/policy": self.policy} if self.policy else {}
        if self.cards > 1:
            annotations["gpushare.io/gpu-count"] = str(self.cards)
        return {
            "metadata": {"name": self.name, "namespace": "default", "annotations": annotations},
            "spec": {
                "schedulerName": SCHEDULER,
                "initContainers": [
                    _container(f"i{n}", units) | ({"restartPolicy": "Always"} if stays else {})
                    for n, (units, stays) in enumerate(self.before)
                ],
                "containers": [_container(f"c{n}", units) for n, units in enumerate(self.mains)],
            },
        }


def plans(rng: Random, count: int) -> list[PodPlan]:
    """Return so many pods: mostly plain ones, and some of every other shape."""
    shapes = [_plain, _several, _init, _sidecar, _two_cards, _spread, _too_large]
    chosen = rng.choices(shapes, weights=(38, 16, 12, 12, 10, 7, 5), k=count)
    return [shape(f"pod-{n}", rng) for n, shape in enumerate(chosen)]


def whole_cards(units: Sequence[int]) -> list[PodPlan]:
    """Return a pod for each of these cards that fits on it only while it is empty."""
    return [PodPlan(name=f"whole-{n}", mains=(each,)) for n, each in enumerate(units)]


def _plain(name: str, rng: Random) -> PodPlan:
    return PodPlan(name=name, mains=(rng.choice((1, 2, 4, 7, 12, 20, 36)),))


def _several(name: str, rng: Random) -> PodPlan:
    rest = rng.choices((0, 1, 3, 6), k=rng.randint(1, 2))
    return PodPlan(name=name, mains=(rng.randint(1, 8), *rest))


def _init(name: str, rng: Random) -> PodPlan:
    before = tuple((rng.randint(1, 14), False) for _ in range(rng.randint(1, 2)))
    return PodPlan(name=name, mains=(rng.randint(1, 8),), before=before)


def _sidecar(name: str, rng: Random) -> PodPlan:
    before = [(rng.randint(1, 4), True), (rng.randint(1, 9), False)]
    rng.shuffle(before)
    return PodPlan(name=name, mains=(rng.randint(1, 8),), before=tuple(before))


def _two_cards(name: str, rng: Random) -> PodPlan:
    mains = tuple(2 * rng.randint(1, 12) for _ in range(rng.randint(1, 2)))
    return PodPlan(name=name, mains=mains, cards=2)


def _spread(name: str, rng: Random) -> PodPlan:
    return PodPlan(name=name, mains=(rng.randint(1, 12),), policy="spread")


def _too_large(name: str, rng: Random) -> PodPlan:
    return PodPlan(name=name, mains=(rng.choice(TOO_LARGE_UNITS),))


def _container(name: str, units: int) -> dict[str, Any]:
    amounts = {RESOURCE: str(units)} if units else {}
    return {"name": name, "image": "work", "resources": {"limits": amounts, "requests": amounts}}
