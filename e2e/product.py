"""The product in the cluster: its own manifests, with simulated cards in place of real ones."""

import json
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.cluster import Cluster
from e2e.cluster.images import BUSYBOX, REPOSITORY
from e2e.cluster.programs import wait_until

RESOURCE = "aliyun.com/gpu-mem"
SYSTEM = "kube-system"
UNITS = {"node-a": 30, "node-b": 30}


def install_node_daemon(cluster: Cluster, *, simulate: str = "t4-x2") -> None:
    """Apply daemonset.yaml and the account's policy, and label the nodes."""
    environment = {"name": "GPUSHARE_SIMULATE", "value": simulate}
    objects = _manifests(REPOSITORY / "daemonset.yaml")
    for each in objects:
        if each["kind"] == "DaemonSet":
            each["spec"]["template"]["spec"]["containers"][0]["env"].append(environment)
    cluster.kubectl.apply(*objects)
    cluster.kubectl("apply", "-f", str(REPOSITORY / "deploy" / "policy" / "node-account.yaml"))
    cluster.kubectl("label", "node", *cluster.nodes, "gpushare=true", "--overwrite")


def install_scheduler(cluster: Cluster) -> None:
    """Apply the sidecar way of the extender and the policy that sends pods to it."""
    for path in ("extender/sidecar.yaml", "admission/scheduler-name.yaml"):
        cluster.kubectl("apply", "-f", str(REPOSITORY / "deploy" / path))
    status = ("rollout", "status", "deployment/gpushare-scheduler", "--timeout=90s")
    cluster.kubectl("-n", SYSTEM, *status)


def wait_for_units(cluster: Cluster, *, seconds: float = 60) -> None:
    """Return once both nodes show their units and their count of cards."""

    def there() -> bool:
        found = {
            node["metadata"]["name"]: node["status"]["allocatable"]
            for node in cluster.kubectl.items("nodes")
        }
        return all(
            found[name].get(RESOURCE) == str(units)
            and found[name].get("aliyun.com/gpu-count") == "2"
            for name, units in UNITS.items()
        )

    wait_until(there, what="both nodes show their units", seconds=seconds)


def pod(name: str, *units: int, **spec: Any) -> dict[str, Any]:
    """Return a pod whose containers ask for so many units each."""
    containers = [
        {
            "name": f"main-{number}",
            "image": BUSYBOX,
            "command": ["sleep", "100000"],
            "resources": {"limits": {RESOURCE: each}},
        }
        for number, each in enumerate(units)
    ]
    whole = {"containers": containers, "terminationGracePeriodSeconds": 0, **spec}
    annotations = whole.pop("annotations", {})
    metadata = {"name": name, "annotations": annotations, "labels": {"of": "the-test"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def environment(cluster: Cluster, pod: str, container: str = "main-0") -> dict[str, str]:
    """Return what a running container finds in its environment."""
    text = cluster.kubectl("exec", pod, "-c", container, "--", "env")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def allocation(cluster: Cluster, pod: str) -> dict[str, dict[str, int]]:
    """Wait until the pod's real allocation is written on it, and return it."""
    key = "gpushare.io/allocation"

    def annotations() -> dict[str, str]:
        found: dict[str, str] = cluster.kubectl.get("pod", pod)["metadata"]["annotations"]
        return found

    wait_until(lambda: key in annotations(), what=f"{key} on {pod}", seconds=20)
    content: dict[str, dict[str, int]] = json.loads(annotations()[key])
    return content


def agrees(cluster: Cluster, name: str) -> None:
    """Assert that a pod's environment, its record and its annotations tell the same card."""
    found = environment(cluster, name)
    ((uuid, units),) = allocation(cluster, name)["main-0"].items()
    annotations = cluster.kubectl.get("pod", name)["metadata"]["annotations"]
    assert found["NVIDIA_VISIBLE_DEVICES"] == uuid
    assert found["ALIYUN_COM_GPU_MEM_CONTAINER"] == str(units)
    assert found["ALIYUN_COM_GPU_MEM_IDX"] == annotations["ALIYUN_COM_GPU_MEM_IDX"]


def held_units(cluster: Cluster) -> dict[tuple[str, str], int]:
    """Return what the running pods hold of each card, by node and card, as they are told."""
    held: dict[tuple[str, str], int] = {}
    for each in cluster.kubectl.items("pods", namespace="default"):
        if each["status"]["phase"] == "Running":
            for units in allocation(cluster, each["metadata"]["name"]).values():
                for uuid, count in units.items():
                    key = (each["spec"]["nodeName"], uuid)
                    held[key] = held.get(key, 0) + count
    return held


def phases(cluster: Cluster) -> dict[str, str]:
    """Return the phase of each of the test's pods."""
    return {
        each["metadata"]["name"]: each["status"]["phase"]
        for each in cluster.kubectl.items("pods", namespace="default")
    }


def unscheduled(cluster: Cluster, name: str) -> str:
    """Wait until a pod is said not to be placed, and return what is said."""

    def messages() -> list[str]:
        conditions = cluster.kubectl.get("pod", name)["status"].get("conditions", [])
        return [
            each["message"]
            for each in conditions
            if each["type"] == "PodScheduled" and each["status"] == "False"
        ]

    wait_until(messages, what=f"pod {name} is said not to be placed", seconds=30)
    return messages()[0]


def delete_pods(cluster: Cluster) -> None:
    """Delete the test's pods, and return once they are gone."""
    names = list(phases(cluster))
    if names:
        cluster.kubectl.delete("pod", *names)
    wait_until(lambda: not phases(cluster), what="the pods are gone", seconds=60)


def _manifests(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
