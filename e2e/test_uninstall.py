"""The product taken off the cluster again, as docs/howto/uninstall.md says."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from e2e import product
from e2e.cluster.cluster import Cluster
from e2e.cluster.images import REPOSITORY

KINDS = "all,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings"
POLICIES = (
    "validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "mutatingadmissionpolicies,mutatingadmissionpolicybindings,poddisruptionbudgets"
)
SEVERAL_STATUS_UPDATES = 5.0


@pytest.fixture
def installed(sandbox: Cluster) -> Iterator[Cluster]:
    """A cluster with all of the product in it; it works again in the end."""
    product.install_node_daemon(sandbox)
    product.install_scheduler(sandbox)
    product.apply(sandbox, *product.POLICIES)
    product.wait_for_units(sandbox)
    yield sandbox
    product.install_node_daemon(sandbox)
    product.wait_for_units(sandbox)


def test_uninstall_leaves_nothing_but_the_kubelets_own_zeros(installed: Cluster) -> None:
    product.remove(installed)
    for node in installed.nodes.values():
        # Its units are 0 then; for 5 minutes the kubelet puts these zeros back.
        node.stop_kubelet()
        node.run_kubelet()
    product.wait_for_no_units(installed)

    told = _uninstall(installed)

    time.sleep(SEVERAL_STATUS_UPDATES)
    for name in installed.node_names:
        node = installed.kubectl.get("node", name)
        metadata, status = node["metadata"], node["status"]
        assert not [key for key in metadata["annotations"] if "gpushare.io/" in key], told
        assert not [key for key in metadata["labels"] if "gpushare.io/" in key], told
        for part in ("capacity", "allocatable"):
            left = {key: value for key, value in status[part].items() if "aliyun.com/" in key}
            assert left in ({}, {product.RESOURCE: "0"}), told
    part_of = ("-A", "-l", "app.kubernetes.io/part-of=gpushare", "-o", "name")
    assert installed.kubectl("get", f"{KINDS},{POLICIES}", *part_of) == ""


def _uninstall(cluster: Cluster) -> str:
    kubeconfig = cluster.control_plane.kubeconfig("admin")
    command = [sys.executable, "-m", "gpushare_plugin", "uninstall", "--all-nodes"]
    outcome = subprocess.run(
        [*command, "--kubeconfig", str(kubeconfig)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout
