"""Kubelets that go and come back; pods that hold units do not notice, but after a reboot."""

import signal
from collections.abc import Iterator

import pytest

from e2e import agreement, daemons, pods, product
from e2e.cluster.cluster import Cluster
from e2e.cluster.node import Node
from e2e.cluster.programs import wait_until

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


@pytest.fixture
def node(sandbox: Cluster) -> Iterator[Node]:
    """A node whose kubelet, as the test leaves it, works in the end."""
    node = sandbox.nodes["node-a"]
    yield node
    product.wait_for_units(sandbox)
    daemons.wait_ready(sandbox)
    product.wait_for_rollout(sandbox, "deployment/gpushare-scheduler")


def test_a_kubelet_restarted_at_rest_has_the_units_again(sandbox: Cluster, node: Node) -> None:
    sandbox.kubectl.apply(_on(node, "holder"))
    pods.wait_running(sandbox, 1)
    restarts = daemons.restarts(sandbox)
    registrations = daemons.registrations(sandbox, node.name)

    node.stop_kubelet()
    node.run_kubelet()
    daemons.wait_registered(sandbox, node.name, after=registrations)

    product.wait_for_units(sandbox)
    sandbox.kubectl.apply(_on(node, "newcomer"))
    pods.wait_running(sandbox, 2)
    agreement.assert_all_agree(sandbox)
    assert pods.restarts(sandbox) == {"holder": 0, "newcomer": 0}
    assert daemons.restarts(sandbox) == restarts


def test_a_kubelet_killed_under_load_loses_no_pod(sandbox: Cluster, node: Node) -> None:
    sandbox.kubectl.apply(pods.replicas("load", 20, 3))
    pods.wait_any_running(sandbox)

    node.stop_kubelet(signal.SIGKILL)
    node.run_kubelet()

    pods.wait_running(sandbox, 20)
    agreement.assert_all_agree(sandbox)
    assert sorted(pods.held_units(sandbox).values()) == [product.CARD_UNITS] * 4


@pytest.mark.parametrize("first", ["kubelet", "daemon"])
def test_after_a_reboot_pods_are_replaced_whichever_is_up_first(
    sandbox: Cluster, node: Node, first: str
) -> None:
    # Two on each card of both nodes.
    sandbox.kubectl.apply(pods.replicas("service", 8, 7))
    pods.wait_running(sandbox, 8)
    before = {
        each["metadata"]["name"]
        for each in pods.listed(sandbox)
        if each["spec"]["nodeName"] == node.name
    }
    daemon = daemons.pods(sandbox)[node.name]["metadata"]["uid"]

    node.stop_kubelet(signal.SIGKILL)
    # The daemon that was spared stands for one that is up before the kubelet.
    node.kill_containers(but=daemon if first == "daemon" else "")
    node.run_kubelet()
    wait_until(
        lambda: not before & _untouched(sandbox),
        what="no pod of before the reboot as if nothing had been",
        seconds=60,
    )

    pods.wait_running(sandbox, 8, seconds=120)
    agreement.assert_all_agree(sandbox)
    assert sorted(pods.held_units(sandbox).values()) == [14] * 4


def _untouched(sandbox: Cluster) -> set[str]:
    running = {name for name, phase in pods.phases(sandbox).items() if phase == "Running"}
    return {name for name, count in pods.restarts(sandbox).items() if name in running and not count}


def _on(node: Node, name: str) -> dict[str, object]:
    return pods.pod(name, 4, nodeSelector={"kubernetes.io/hostname": node.name})
