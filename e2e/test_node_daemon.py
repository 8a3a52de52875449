"""The node daemon from daemonset.yaml, under real kubelets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import product
from e2e.cluster.cluster import Cluster
from e2e.cluster.programs import wait_until


@pytest.fixture(scope="module", autouse=True)
def installed(cluster: Cluster) -> None:
    product.install_node_daemon(cluster)
    product.wait_for_units(cluster)


@pytest.fixture(autouse=True)
def no_pods_left(cluster: Cluster) -> Iterator[None]:
    yield
    product.delete_pods(cluster)


def test_a_node_shows_units_count_record_and_labels(cluster: Cluster) -> None:
    node = cluster.kubectl.get("node", "node-a")

    assert node["status"]["capacity"][product.RESOURCE] == "30"
    assert node["status"]["capacity"]["aliyun.com/gpu-count"] == "2"
    record = json.loads(node["metadata"]["annotations"]["gpushare.io/gpus"])
    assert [card["units"] for card in record["gpus"]] == [15, 15]
    assert node["metadata"]["labels"]["gpushare.io/model"] == "Tesla-T4"


def test_a_container_is_told_the_card_that_its_pod_is_said_to_have(cluster: Cluster) -> None:
    cluster.kubectl.apply(product.pod("one", 4))

    cluster.kubectl.wait_phase("one", ["Running"])

    found = product.environment(cluster, "one")
    ((uuid, units),) = product.allocation(cluster, "one")["main-0"].items()
    assert found["NVIDIA_VISIBLE_DEVICES"] == uuid
    assert found["ALIYUN_COM_GPU_MEM_CONTAINER"] == str(units) == "4"


def test_the_daemon_is_ready_and_confined_as_its_manifest_says(cluster: Cluster) -> None:
    def statuses() -> list[Any]:
        selector = "app.kubernetes.io/component=node"
        pods = cluster.kubectl.items("pods", namespace=product.SYSTEM, selector=selector)
        return [each for pod in pods for each in pod["status"]["containerStatuses"]]

    wait_until(
        lambda: [each["ready"] for each in statuses()] == [True, True],
        what="both node daemons ready",
        seconds=30,
    )
    assert [each["restartCount"] for each in statuses()] == [0, 0]
