"""The configuration file: kind KubeSchedulerConfiguration, API version v1.

Rule 1: reading is strict, as the real one's: an unknown field of what is read here is an
error, so that a manifest which is tried here is also right there.
Rule 2: what this scheduler has no part for (other plugins, their arguments) is passed over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpushare_plugin.sim.scheduler.extender_settings import ExtenderSettings, read_extenders
from gpushare_plugin.sim.scheduler.failures import ConfigurationError
from gpushare_plugin.sim.scheduler.strict_reading import only, seconds

API_VERSION = "kubescheduler.config.k8s.io/v1"
_TOP = frozenset(
    {
        "apiVersion",
        "kind",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "healthzBindAddress",
        "metricsBindAddress",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
        "extenders",
        "delayCacheUntilActive",
    }
)
_PROFILE = frozenset({"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"})
_ELECTION = frozenset(
    {
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceLock",
        "resourceName",
        "resourceNamespace",
    }
)
_SCORED: tuple[Mapping[str, Any], ...] = ({"name": "cpu"}, {"name": "memory"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """The part `leaderElection`."""

    leader_elect: bool = True
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0
    name: str = "kube-scheduler"
    namespace: str = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The file, as far as it counts here."""

    scheduler_name: str
    percentage_of_nodes_to_score: int
    """0: falls with the size of the cluster, from 50 to 5."""
    initial_backoff_seconds: float
    max_backoff_seconds: float
    most_allocated: bool
    """Score full nodes higher; else empty ones (NodeResourcesFit's scoring strategy)."""
    score_weights: Mapping[str, int]
    """What the own score looks at, by resource."""
    extenders: tuple[ExtenderSettings, ...]
    election: ElectionSettings


def read_configuration(path: Path) -> Configuration:
    """Read the file; raises ConfigurationError for what the real scheduler would not start with."""
    try:
        return _configuration(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"scheduler configuration {path}: {error}") from error


def _configuration(value: Mapping[str, Any]) -> Configuration:
    found = (value.get("kind"), value.get("apiVersion"))
    if found != ("KubeSchedulerConfiguration", API_VERSION):
        raise ValueError(f"found {found}, expected KubeSchedulerConfiguration {API_VERSION}")
    only(value, _TOP)
    given: Sequence[Mapping[str, Any]] = value.get("profiles") or ({},)
    profiles = [only(each, _PROFILE, "profiles.") for each in given]
    if len(profiles) != 1:
        raise ValueError(f"profiles: found {len(profiles)}, expected one: more are not simulated")
    strategy = _scoring_strategy(profiles[0])
    return Configuration(
        scheduler_name=profiles[0].get("schedulerName", "default-scheduler"),
        percentage_of_nodes_to_score=profiles[0].get("percentageOfNodesToScore")
        or value.get("percentageOfNodesToScore")
        or 0,
        initial_backoff_seconds=float(value.get("podInitialBackoffSeconds") or 1),
        max_backoff_seconds=float(value.get("podMaxBackoffSeconds") or 10),
        most_allocated=strategy.get("type", "LeastAllocated") == "MostAllocated",
        score_weights={
            each["name"]: each.get("weight") or 1 for each in strategy.get("resources") or _SCORED
        },
        extenders=read_extenders(value.get("extenders") or ()),
        election=_election(value.get("leaderElection")),
    )


def _scoring_strategy(profile: Mapping[str, Any]) -> Mapping[str, Any]:
    for plugin in profile.get("pluginConfig") or ():
        if plugin["name"] == "NodeResourcesFit":
            strategy: Mapping[str, Any] = plugin.get("args", {}).get("scoringStrategy") or {}
            return strategy
    return {}


def _election(value: Mapping[str, Any] | None) -> ElectionSettings:
    given = only(value, _ELECTION, "leaderElection.")
    election = ElectionSettings(
        leader_elect=given.get("leaderElect", True),
        lease_seconds=seconds(given.get("leaseDuration"), 15.0),
        renew_seconds=seconds(given.get("renewDeadline"), 10.0),
        retry_seconds=seconds(given.get("retryPeriod"), 2.0),
        name=given.get("resourceName") or "kube-scheduler",
        namespace=given.get("resourceNamespace") or "kube-system",
    )
    if not election.lease_seconds > election.renew_seconds > election.retry_seconds:
        raise ValueError("leaderElection: expected leaseDuration > renewDeadline > retryPeriod")
    return election
