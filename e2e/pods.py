"""The tests' pods: made, asked and deleted, all in the tests' namespace."""

import json
from collections.abc import Iterable
from typing import Any

from e2e.cluster.foreign import Kubernetes
from e2e.cluster.images import BUSYBOX
from e2e.cluster.kubectl import NAMESPACE
from e2e.cluster.programs import wait_until
from e2e.product import RESOURCE

ALLOCATION = "gpushare.io/allocation"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
LABELS = {"of": "the-test"}


def container(name: str, units: int, *command: str) -> dict[str, Any]:
    """Return a container that asks for so many units, and sleeps if it has nothing to do."""
    return {
        "name": name,
        "image": BUSYBOX,
        "command": list(command) or ["sleep", "100000"],
        "resources": {"limits": {RESOURCE: units}} if units else {},
    }


def pod(name: str, *units: int, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a pod whose containers ask for so many units each."""
    containers = [container(f"main-{number}", each) for number, each in enumerate(units)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": LABELS},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 1, **spec},
    }


def replicas(name: str, count: int, units: int, **spec: Any) -> dict[str, Any]:
    """Return a ReplicaSet of pods that ask for so many units each."""
    one = pod(name, units, **spec)
    selector = {"matchLabels": LABELS}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": count,
            "selector": selector,
            "template": {"metadata": {"labels": LABELS}, "spec": one["spec"]},
        },
    }


def listed(cluster: Kubernetes) -> list[Any]:
    """Return all of the tests' pods."""
    return cluster.kubectl.items("pods", namespace=NAMESPACE)


def phases(cluster: Kubernetes) -> dict[str, str]:
    """Return the phase of each of the tests' pods."""
    return {each["metadata"]["name"]: each["status"]["phase"] for each in listed(cluster)}


def wait_running(cluster: Kubernetes, count: int, *, seconds: float = 90) -> None:
    """Wait until just so many pods run with all containers ready."""

    def there() -> bool:
        return len([each for each in listed(cluster) if _is_ready(each)]) == count

    wait_until(there, what=f"{count} pods running", seconds=seconds)


def wait_any_running(cluster: Kubernetes, *, seconds: float = 60) -> None:
    """Wait until the first of the pods runs."""
    wait_until(
        lambda: any(_is_ready(each) for each in listed(cluster)),
        what="a pod running",
        seconds=seconds,
    )


def wait_allocations(cluster: Kubernetes, names: Iterable[str]) -> dict[str, Any]:
    """Wait until the real allocation is written on each of these pods; return it by pod."""
    wanted = set(names)

    def written() -> dict[str, Any]:
        return {
            each["metadata"]["name"]: json.loads(each["metadata"]["annotations"][ALLOCATION])
            for each in listed(cluster)
            if each["metadata"]["name"] in wanted
            and ALLOCATION in each["metadata"].get("annotations", {})
        }

    wait_until(lambda: written().keys() == wanted, what=f"{ALLOCATION} on {wanted}", seconds=30)
    return written()


def environment(cluster: Kubernetes, name: str, container: str = "main-0") -> dict[str, str]:
    """Return what a running container finds in its environment."""
    text = cluster.kubectl("exec", name, "-c", container, "--", "env")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def held_units(cluster: Kubernetes) -> dict[tuple[str, str], int]:
    """Return what the running pods hold of each card, by node and card, as they are told."""
    running = [each for each in listed(cluster) if each["status"]["phase"] == "Running"]
    nodes = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in running}
    held: dict[tuple[str, str], int] = {}
    for name, content in wait_allocations(cluster, nodes).items():
        for cards in content.values():
            for uuid, count in cards.items():
                key = (nodes[name], uuid)
                held[key] = held.get(key, 0) + count
    return held


def restarts(cluster: Kubernetes) -> dict[str, int]:
    """Return how often containers of each of the tests' pods were started again."""
    return {
        each["metadata"]["name"]: sum(
            status["restartCount"] for status in each["status"].get("containerStatuses", [])
        )
        for each in listed(cluster)
    }


def unscheduled(cluster: Kubernetes, name: str) -> str:
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


def delete_all(cluster: Kubernetes) -> None:
    """Delete the tests' pods and what makes them, and return once they are gone."""
    cluster.kubectl("delete", "replicasets", "--all", "--cascade=orphan")
    # Not by force: the kubelet has to give the units back first.
    cluster.kubectl("delete", "pods", "--all", "--wait=false")
    wait_until(lambda: not phases(cluster), what="the pods are gone", seconds=60)


def _is_ready(pod: Any) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return pod["status"]["phase"] == "Running" and all(each["ready"] for each in statuses)
