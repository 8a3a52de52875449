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
    late_calls: int
    """Calls in each round for a pod that the watch never tells of; each takes half a second."""
    restarts: int
    pods: int
    rest_seconds: float
    settle_seconds: float
    """Left to a daemon after its pods came: it looks more often for half a minute after that."""
    cluster_pods: int
    """Pods that exist in the cluster, those on the node among them."""
    flat_calls: int
    """Calls of Allocate over which the memory must stay flat."""
    extender_nodes: int
    """Nodes of eight cards in the extender's cluster, with four pods each."""
    extender_starts: int
    filter_calls: int
    """Calls of filter by names, to each side, in each round."""
    changed_filter_calls: int
    """The same with a change of a node before each."""
    whole_filter_calls: int
    """The same with whole Node objects: 40 MB a call."""
    binds: int
    """Pods that are bound by each side, in each round, one after the other and again at once."""
    events: int
    """Watch events that the extender is told of, in each round."""
    peers: bool = True
    """Whether the Go peer is built, where Go is."""

    def with_rounds(self, rounds: int | None) -> "Plan":
        """Return the plan with another number of rounds, if one is given."""
        return self if rounds is None else replace(self, rounds=rounds)

    def without_peers(self) -> "Plan":
        """Return the plan for a machine without Go."""
        return replace(self, peers=False)


FULL = Plan(
    rounds=7,
    calls=1000,
    paced_calls=100,
    late_calls=5,
    restarts=7,
    pods=100,
    rest_seconds=60.0,
    settle_seconds=40.0,
    cluster_pods=5000,
    flat_calls=100_000,
    extender_nodes=5000,
    extender_starts=7,
    filter_calls=400,
    changed_filter_calls=200,
    whole_filter_calls=5,
    binds=200,
    events=1000,
)
QUICK = Plan(
    rounds=1,
    calls=20,
    paced_calls=4,
    late_calls=1,
    restarts=1,
    pods=5,
    rest_seconds=0.5,
    settle_seconds=0.1,
    cluster_pods=20,
    flat_calls=200,
    extender_nodes=20,
    extender_starts=1,
    filter_calls=10,
    changed_filter_calls=5,
    whole_filter_calls=2,
    binds=8,
    events=10,
)
