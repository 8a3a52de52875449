"""The node daemon killed, taken away and upgraded; pods that hold units run on."""

from collections.abc import Iterator

import pytest

from e2e import agreement, daemons, pods, product
from e2e.cluster.cluster import Cluster
from e2e.cluster.foreign import Kubernetes
from e2e.cluster.images import REPOSITORY
from e2e.cluster.programs import wait_until

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


@pytest.fixture(autouse=True)
def holders(cluster: Kubernetes, no_pods_left: None) -> Iterator[None]:  # noqa: ARG001  # it goes first
    """A pod on each node that holds units, and has not been started again in the end."""
    names = [f"holder-{node}" for node in cluster.node_names]
    for name, node in zip(names, cluster.node_names, strict=True):
        cluster.kubectl.apply(pods.pod(name, 4, nodeSelector={"kubernetes.io/hostname": node}))
    pods.wait_running(cluster, 2)
    yield
    found = pods.restarts(cluster)
    assert {name: found[name] for name in names} == dict.fromkeys(names, 0)


def test_a_daemon_killed_is_started_again_and_serves(sandbox: Cluster) -> None:
    before = daemons.restarts(sandbox)["node-a"]

    daemons.kill(sandbox, "node-a")
    wait_until(
        lambda: daemons.restarts(sandbox)["node-a"] == before + 1,
        what="the daemon started again",
        seconds=60,
    )

    daemons.wait_ready(sandbox)
    _serves_each_node(sandbox)


def test_a_daemon_set_deleted_and_applied_again_serves_the_same_units(cluster: Kubernetes) -> None:
    product.take_away(cluster, REPOSITORY / "daemonset.yaml")
    wait_until(lambda: not daemons.pods(cluster), what="no daemon", seconds=60)

    product.install_node_daemon(cluster)

    _serves_each_node(cluster)


def test_a_rolling_upgrade_has_never_two_daemons_on_a_node(cluster: Kubernetes) -> None:
    before = {node: pod["metadata"]["uid"] for node, pod in daemons.pods(cluster).items()}

    # Anything of the pod that differs is an upgrade; the wait is that for the new pods.
    product.install_node_daemon(cluster, GPUSHARE_LOG_LEVEL="debug")

    after = {node: pod["metadata"]["uid"] for node, pod in daemons.pods(cluster).items()}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    _serves_each_node(cluster)


def _serves_each_node(cluster: Kubernetes) -> None:
    product.wait_for_units(cluster)
    for node in cluster.node_names:
        selector = {"kubernetes.io/hostname": node}
        cluster.kubectl.apply(pods.pod(f"newcomer-{node}", 4, nodeSelector=selector))
    pods.wait_running(cluster, 4)
    agreement.assert_all_agree(cluster)
    assert max(pods.held_units(cluster).values()) <= product.CARD_UNITS
