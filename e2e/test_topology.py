"""A kubelet with a topology manager policy asks for no proposal where devices name a NUMA node."""

from collections.abc import Iterator

import pytest

from e2e import agreement, daemons, pods, product
from e2e.cluster.cluster import Cluster
from e2e.cluster.node import Node

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


@pytest.fixture
def aligned(sandbox: Cluster) -> Iterator[Node]:
    """A node whose kubelet aligns devices; it is as before in the end."""
    node = sandbox.nodes["node-a"]
    _restart(sandbox, node, "topologyManagerPolicy: best-effort")
    yield node
    _restart(sandbox, node, "")


def test_pods_are_whole_on_one_card_under_a_topology_manager_policy(
    sandbox: Cluster, aligned: Node
) -> None:
    where = {"kubernetes.io/hostname": aligned.name}
    sandbox.kubectl.apply(*(pods.pod(f"fit-{n}", 3, nodeSelector=where) for n in range(10)))

    pods.wait_running(sandbox, 10)

    agreement.assert_all_agree(sandbox)
    assert set(pods.phases(sandbox).values()) == {"Running"}
    assert list(pods.held_units(sandbox).values()) == [product.CARD_UNITS] * 2


def _restart(sandbox: Cluster, node: Node, settings: str) -> None:
    registrations = daemons.registrations(sandbox, node.name)
    node.stop_kubelet()
    node.write_settings(settings)
    node.run_kubelet()
    daemons.wait_registered(sandbox, node.name, after=registrations)
    product.wait_for_units(sandbox)
    # Pods that a kubelet sees first after its start find the units still taken of those that
    # ended before it.
    sandbox.kubectl.apply(pods.pod("settled", 0, nodeName=node.name))
    sandbox.kubectl.wait_phase("settled", ["Running"])
    sandbox.kubectl.delete("pod", "settled")
