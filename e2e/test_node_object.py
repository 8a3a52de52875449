"""The node object deleted under the daemon, and what of the product is left after it."""

import json

import pytest

from e2e import agreement, daemons, pods, product
from e2e.cluster.cluster import Cluster
from e2e.cluster.programs import wait_until

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


def test_a_node_deleted_and_registered_again_shows_its_cards_as_before(sandbox: Cluster) -> None:
    record = _record(sandbox)
    node = sandbox.nodes["node-a"]

    sandbox.kubectl("delete", "node", node.name)
    # A kubelet makes its node object when it starts, and never again.
    node.stop_kubelet()
    node.run_kubelet()
    wait_until(sandbox.ready, what="both nodes Ready", seconds=60)
    product.install_node_daemon(sandbox)

    product.wait_for_units(sandbox)
    wait_until(lambda: _record(sandbox) == record, what="the record of the cards", seconds=30)
    daemons.wait_ready(sandbox)
    product.wait_for_rollout(sandbox, "deployment/gpushare-scheduler")
    sandbox.kubectl.apply(*(pods.pod(f"again-{number}", 15) for number in range(4)))
    pods.wait_running(sandbox, 4)
    agreement.assert_all_agree(sandbox)


def _record(sandbox: Cluster) -> object:
    annotations = sandbox.kubectl.get("node", "node-a")["metadata"]["annotations"]
    return json.loads(annotations["gpushare.io/gpus"])
