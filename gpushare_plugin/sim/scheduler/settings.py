"""What one simulated scheduler is told at its start, beside its configuration file.

Rule: a default is what kube-scheduler 1.36 does, unless the field says otherwise.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The fixed properties of one scheduler."""

    kubeconfig: Path
    config: Path
    """A KubeSchedulerConfiguration, v1; see `configuration`."""
    identity: str = "simulated-scheduler"
    """Who it is in the Lease and in events; two schedulers need two."""
    seed: int = 1
    """Every random tie follows from it."""
    requeue_on_delete: bool = True
    """Whether the end of a pod brings back pods that an extender refused; off for the releases
    before the fix of kubernetes/kubernetes#122019."""
    pop_from_backoff: bool = True
    """Whether an idle scheduler takes pods whose back-off is not over, as since 1.33; pods that
    came back with an error wait in any case."""
    preempt_without_victims: bool = False
    """Whether nodes where its own filters find no victim are offered to extenders that preempt,
    as releases after 1.36 do (kubernetes/kubernetes#135486)."""
    unschedulable_seconds: float = 300.0
    """How long a pod that fits nowhere waits at most for something to happen."""
    backoff_scale: float = 1.0
    """How long one second of back-off really lasts; 0.01 makes 10 s pass in 0.1 s."""
    watch_retry_seconds: float = 1.0
    """How long after a failed list or watch the next one starts."""
    call_log_entries: int = 1_000
    """How many calls to extenders the journal keeps; the oldest go first."""
    body_log_bytes: int = 65_536
    """How much of each request and answer the journal keeps."""
