"""Pods that make room for a more important one, and pods that a node is drained of."""

from collections.abc import Iterator

import pytest

from e2e import pods, product
from e2e.cluster.foreign import Kubernetes
from e2e.cluster.programs import wait_until

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


@pytest.fixture
def important(cluster: Kubernetes) -> Iterator[str]:
    """The name of a priority above everybody's."""
    name = "gpushare-e2e-important"
    cluster.kubectl.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
        }
    )
    yield name
    cluster.kubectl("delete", "priorityclass", name)


def test_a_more_important_pod_evicts_from_one_card_only(
    cluster: Kubernetes, important: str
) -> None:
    # Three of five units fill a card, so twelve fill the cluster; ten is two of a card's.
    cluster.kubectl.apply(*(pods.pod(f"low-{number}", 5) for number in range(12)))
    pods.wait_running(cluster, 12)
    before = _cards(cluster)

    cluster.kubectl.apply(pods.pod("high", 10, priorityClassName=important))
    cluster.kubectl.wait_phase("high", ["Running"])

    after = _cards(cluster)
    gone = before.keys() - after.keys()
    assert len(gone) == 2
    assert {before[name] for name in gone} == {after["high"]}
    assert sorted(pods.held_units(cluster).values()) == [product.CARD_UNITS] * 4


def test_a_drained_nodes_pods_come_up_on_the_other_node(cluster: Kubernetes) -> None:
    first, second = cluster.node_names
    cluster.kubectl.apply(pods.replicas("movable", 4, 7))
    pods.wait_running(cluster, 4)

    cluster.kubectl("cordon", first)
    try:
        for each in pods.listed(cluster):
            if each["spec"]["nodeName"] == first:
                _evict(cluster, each["metadata"]["name"])
        wait_until(
            lambda: [each["spec"].get("nodeName") for each in pods.listed(cluster)] == [second] * 4,
            what=f"four pods, all on {second}",
            seconds=60,
        )
    finally:
        cluster.kubectl("uncordon", first)

    pods.wait_running(cluster, 4)
    assert sorted(pods.held_units(cluster).values()) == [14, 14]


def _evict(cluster: Kubernetes, name: str) -> None:
    namespace = cluster.kubectl.get("pod", name)["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    body = '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"}}'
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=body % (name, namespace))


def _cards(cluster: Kubernetes) -> dict[str, tuple[str, ...]]:
    running = {
        each["metadata"]["name"]: each["spec"]["nodeName"]
        for each in pods.listed(cluster)
        if each["status"]["phase"] == "Running"
    }
    allocations = pods.wait_allocations(cluster, running)
    return {name: (node, *allocations[name]["main-0"]) for name, node in running.items()}
