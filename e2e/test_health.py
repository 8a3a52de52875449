"""A card that falls ill with pods on it, and comes back."""

import json

import pytest

from e2e import daemons, pods, product
from e2e.cluster.foreign import Kubernetes
from e2e.cluster.programs import wait_until

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")
HEALTH = "gpushare.io/health"


def test_a_card_that_falls_ill_keeps_its_pods_gets_no_new_one_and_heals(
    cluster: Kubernetes,
) -> None:
    node = cluster.node_names[0]
    where = {"nodeSelector": {"kubernetes.io/hostname": node}}
    ill = {"gpushare.io/gpu-index": "1"}
    cluster.kubectl.apply(pods.pod("patient", 4, annotations=ill, **where))
    pods.wait_running(cluster, 1)

    daemons.simulate(cluster, node, "lost gpu=1")
    _wait_allocatable(cluster, node, product.CARD_UNITS)

    ((uuid, state),) = json.loads(_annotations(cluster, node)[HEALTH]).items()
    assert state["state"] == "unhealthy"
    assert pods.environment(cluster, "patient")["NVIDIA_VISIBLE_DEVICES"] == uuid
    cluster.kubectl.apply(*(pods.pod(f"new-{number}", 8, **where) for number in range(2)))
    pods.wait_running(cluster, 2)
    assert sorted(pods.phases(cluster).values()) == ["Pending", "Running", "Running"]

    daemons.simulate(cluster, node, "back gpu=1")

    _wait_allocatable(cluster, node, product.NODE_UNITS)
    pods.wait_running(cluster, 3)
    assert json.loads(_annotations(cluster, node).get(HEALTH, "{}")) == {}
    assert set(pods.restarts(cluster).values()) == {0}


def _wait_allocatable(cluster: Kubernetes, node: str, units: int) -> None:
    wait_until(
        lambda: product.allocatable(cluster, node) == units,
        what=f"{node} shows {units} units",
        seconds=30,
    )


def _annotations(cluster: Kubernetes, node: str) -> dict[str, str]:
    found: dict[str, str] = cluster.kubectl.get("node", node)["metadata"]["annotations"]
    return found
