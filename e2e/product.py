"""The product in the cluster: its own manifests, with simulated cards in place of real ones.

Rule: what is applied is the shipped file; a test adds variables to the daemon's environment.
"""

from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.foreign import Kubernetes
from e2e.cluster.images import REPOSITORY
from e2e.cluster.programs import wait_until

RESOURCE = "aliyun.com/gpu-mem"
COUNT = "aliyun.com/gpu-count"
SYSTEM = "kube-system"
CARD_UNITS = 15
NODE_UNITS = 2 * CARD_UNITS
EVENTS = "/tmp/simulated-events"  # noqa: S108  # in the daemon's container, an emptyDir of its own
DEPLOY = REPOSITORY / "deploy"
SIMULATED = {
    "GPUSHARE_SIMULATE": "t4-x2",
    "GPUSHARE_SIMULATE_EVENTS": EVENTS,
    # A card heals after three good probes.
    "GPUSHARE_PROBE_SECONDS": "1",
}
POLICIES = (
    "policy/node-account.yaml",
    "admission/pods.yaml",
    "admission/all-gpus.yaml",
    "admission/scheduler-name.yaml",
)


def install_node_daemon(cluster: Kubernetes, **more: str) -> None:
    """Apply daemonset.yaml and the account's policy, label the nodes, and wait for the rollout."""
    cluster.kubectl("apply", "-f", str(DEPLOY / "policy" / "node-account.yaml"))
    cluster.kubectl.apply(*node_daemon(**more))
    cluster.kubectl("label", "node", *cluster.node_names, "gpushare=true", "--overwrite")
    wait_for_rollout(cluster, "daemonset/gpushare-node")


def node_daemon(**more: str) -> list[Any]:
    """Return the objects of daemonset.yaml, with simulated cards and `more` environment."""
    objects = list(yaml.safe_load_all((REPOSITORY / "daemonset.yaml").read_text(encoding="utf-8")))
    for each in objects:
        if each["kind"] == "DaemonSet":
            variables = each["spec"]["template"]["spec"]["containers"][0]["env"]
            both = {**SIMULATED, **more}
            variables += [{"name": name, "value": value} for name, value in both.items()]
    return objects


def install_scheduler(cluster: Kubernetes) -> None:
    """Apply the sidecar way of the extender and the policy that sends pods to it."""
    apply(cluster, "extender/sidecar.yaml", "admission/scheduler-name.yaml")
    wait_for_rollout(cluster, "deployment/gpushare-scheduler")


def apply(cluster: Kubernetes, *paths: str) -> None:
    """Apply files below deploy/."""
    for path in paths:
        cluster.kubectl("apply", "-f", str(DEPLOY / path))


def take_away(cluster: Kubernetes, *paths: str | Path) -> None:
    """Delete what files below deploy/ (or whole paths) have, and wait until it is gone."""
    for path in paths:
        cluster.kubectl("delete", "--ignore-not-found", "-f", str(DEPLOY / path))


def remove(cluster: Kubernetes) -> None:
    """Delete all of the product that a run may have made."""
    take_away(cluster, REPOSITORY / "daemonset.yaml", "extender/sidecar.yaml")
    take_away(cluster, "extender/shared.yaml", *POLICIES)


def wait_for_rollout(cluster: Kubernetes, name: str) -> None:
    """Return once all pods of a workload of ours are new and ready."""
    cluster.kubectl("-n", SYSTEM, "rollout", "status", name, "--timeout=120s")


def wait_for_units(cluster: Kubernetes, *, seconds: float = 60) -> None:
    """Return once each node shows all units of its cards as allocatable."""
    wait_until(
        lambda: all(allocatable(cluster, node) == NODE_UNITS for node in cluster.node_names),
        what=f"each node shows {NODE_UNITS} units",
        seconds=seconds,
    )


def wait_for_no_units(cluster: Kubernetes) -> None:
    """Return once no node shows units, as capacity neither."""

    def shown() -> list[str]:
        found = [cluster.kubectl.get("node", name)["status"] for name in cluster.node_names]
        return [each["capacity"].get(RESOURCE, "0") for each in found]

    wait_until(lambda: set(shown()) == {"0"}, what="no node shows units", seconds=30)


def allocatable(cluster: Kubernetes, node: str) -> int:
    """Return the units that a node shows as allocatable."""
    return int(cluster.kubectl.get("node", node)["status"]["allocatable"].get(RESOURCE, 0))
