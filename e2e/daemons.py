"""The node daemons as they run: their pods, processes, metrics and simulated cards."""

import os
import re
import signal
from pathlib import Path
from typing import Any

from e2e.cluster.cluster import Cluster
from e2e.cluster.foreign import Kubernetes
from e2e.cluster.node import processes_of
from e2e.cluster.programs import DidNotWork, wait_until
from e2e.product import EVENTS, SYSTEM

SELECTOR = "app.kubernetes.io/component=node"
STATUS_PORT = 9435


def pods(cluster: Kubernetes) -> dict[str, Any]:
    """Return the daemons' pods by node."""
    found = cluster.kubectl.items("pods", namespace=SYSTEM, selector=SELECTOR)
    return {
        each["spec"]["nodeName"]: each
        for each in found
        if "deletionTimestamp" not in each["metadata"]
    }


def restarts(cluster: Kubernetes) -> dict[str, int]:
    """Return how often each node's daemon was started again."""
    return {
        node: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for node, pod in pods(cluster).items()
    }


def ready(cluster: Kubernetes) -> bool:
    """Say whether each node's daemon is ready."""
    statuses = [pod["status"].get("containerStatuses", []) for pod in pods(cluster).values()]
    return len(statuses) == len(cluster.node_names) and all(
        each["ready"] for status in statuses for each in status or [{"ready": False}]
    )


def wait_ready(cluster: Kubernetes, *, seconds: float = 60) -> None:
    """Return once each node's daemon is ready."""
    wait_until(lambda: ready(cluster), what="the node daemons ready", seconds=seconds)


def registrations(cluster: Kubernetes, node: str) -> float:
    """Return how often a node's daemon has registered since it was started."""
    return metric(cluster, node, "gpushare_registrations_total").get("", 0)


def wait_registered(cluster: Kubernetes, node: str, *, after: float) -> None:
    """Return once a node's daemon has registered more often than `after`."""
    wait_until(
        lambda: registrations(cluster, node) > after,
        what=f"the daemon of {node} registered again",
        seconds=30,
    )


def kill(sandbox: Cluster, node: str) -> None:
    """Kill a node's daemon by SIGKILL, as nobody can within its container."""
    uid = pods(sandbox)[node]["metadata"]["uid"]
    ours = [each for each in processes_of(uid) if b"gpushare" in _command(each)]
    if not ours:
        raise DidNotWork(f"no process of the daemon of {node} (pod {uid})")
    for process in ours:
        os.kill(process, signal.SIGKILL)


def simulate(cluster: Kubernetes, node: str, line: str) -> None:
    """Have something happen to a node's cards; the lines are simulated-gpus.md's."""
    name = pods(cluster)[node]["metadata"]["name"]
    command = ("sh", "-c", f"echo '{line}' >> {EVENTS}")
    cluster.kubectl("-n", SYSTEM, "exec", name, "--", *command)


def log(cluster: Kubernetes, node: str, *, previous: bool = False) -> str:
    """Return what a node's daemon has logged since it was started."""
    name = pods(cluster)[node]["metadata"]["name"]
    return cluster.kubectl("-n", SYSTEM, "logs", name, *(["--previous"] if previous else []))


def metric(cluster: Kubernetes, node: str, name: str) -> dict[str, float]:
    """Return the samples of a metric by their labels, as they are written."""
    pod = pods(cluster)[node]["metadata"]["name"]
    path = f"/api/v1/namespaces/{SYSTEM}/pods/{pod}:{STATUS_PORT}/proxy/metrics"
    text = cluster.kubectl("get", "--raw", path)
    lines = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in lines}


def _command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()
