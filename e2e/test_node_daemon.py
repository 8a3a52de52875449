"""The node daemon from daemonset.yaml, under real kubelets."""

import json

import pytest

from e2e import agreement, daemons, pods
from e2e.cluster.foreign import Kubernetes
from e2e.product import COUNT, RESOURCE

pytestmark = pytest.mark.usefixtures("node_daemon", "no_pods_left")


def test_a_node_shows_units_count_record_and_labels(cluster: Kubernetes) -> None:
    node = cluster.kubectl.get("node", cluster.node_names[0])

    assert node["status"]["capacity"][RESOURCE] == "30"
    assert node["status"]["capacity"][COUNT] == "2"
    record = json.loads(node["metadata"]["annotations"]["gpushare.io/gpus"])
    assert [card["units"] for card in record["gpus"]] == [15, 15]
    assert node["metadata"]["labels"]["gpushare.io/model"] == "Tesla-T4"


def test_a_container_is_told_the_card_that_its_pod_is_said_to_have(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(pods.pod("one", 4))

    pods.wait_running(cluster, 1)

    agreement.assert_all_agree(cluster)


def test_the_daemon_is_ready_and_confined_as_its_manifest_says(cluster: Kubernetes) -> None:
    daemons.wait_ready(cluster)

    assert set(daemons.restarts(cluster).values()) == {0}
    for node in cluster.node_names:
        assert "forbidden" not in daemons.log(cluster, node)
