"""How much is measured: the full run, and one that only shows that everything runs."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The counts of one run."""

    rounds: int
    calls: int
    """Calls of each kind, to each side, in each round."""
    paced_calls: int
    """The same for calls that ask PodResources, which are held below its limit."""
    restarts: int
    pods: int
    rest_seconds: float
    settle_seconds: float
    """Left to a daemon after its pods came, before it is taken to be at rest."""
    cluster_pods: int
    """Pods that exist in the cluster, those on the node among them."""
    flat_calls: int
    """Calls of Allocate over which the memory must stay flat."""

    def with_rounds(self, rounds: int | None) -> "Plan":
        """Return the plan with another number of rounds, if one is given."""
        return self if rounds is None else replace(self, rounds=rounds)


FULL = Plan(
    rounds=7,
    calls=1000,
    paced_calls=100,
    restarts=7,
    pods=100,
    rest_seconds=60.0,
    settle_seconds=6.0,
    cluster_pods=5000,
    flat_calls=100_000,
)
QUICK = Plan(
    rounds=1,
    calls=20,
    paced_calls=4,
    restarts=1,
    pods=5,
    rest_seconds=0.5,
    settle_seconds=0.1,
    cluster_pods=20,
    flat_calls=200,
)
