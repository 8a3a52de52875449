"""What four sides tell of one allocation: container, pod, kubelet, and the extender's choice."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from e2e import pod_resources, pods
from e2e.cluster.cluster import Cluster
from e2e.cluster.foreign import Kubernetes


def assert_all_agree(cluster: Kubernetes) -> None:
    """Assert that for each container of each running pod all sides tell the same card and units."""
    running = {
        each["metadata"]["name"]: each
        for each in pods.listed(cluster)
        if each["status"]["phase"] == "Running"
    }
    allocations = pods.wait_allocations(cluster, running)
    kubelets = pod_resources.held(cluster) if isinstance(cluster, Cluster) else None
    with ThreadPoolExecutor(4) as threads:
        told = dict(
            zip(
                running,
                threads.map(lambda name: _told(cluster, running[name]), running),
                strict=True,
            )
        )
    for name, pod in running.items():
        for container, cards in allocations[name].items():
            ((uuid, units),) = cards.items()
            found = told[name][container]
            assert found["NVIDIA_VISIBLE_DEVICES"] == uuid, (name, container)
            assert found["ALIYUN_COM_GPU_MEM_CONTAINER"] == str(units), (name, container)
            written = pod["metadata"]["annotations"].get(pods.INDEX)
            if written is not None:
                assert found[pods.INDEX] == written, (name, container)
            if kubelets is not None:
                prefix = uuid.removeprefix("GPU-")[:8]
                assert kubelets[name, container] == {prefix: units}, (name, container)


def _told(cluster: Kubernetes, pod: Any) -> dict[str, dict[str, str]]:
    name = pod["metadata"]["name"]
    ready = [
        each["name"]
        for kind in ("initContainerStatuses", "containerStatuses")
        for each in pod["status"].get(kind, [])
        if "running" in each["state"]
    ]
    return {each: pods.environment(cluster, name, each) for each in ready}
