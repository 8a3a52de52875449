"""The cluster that all tests of a run share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import pods, product
from e2e.cluster.cluster import Cluster, from_environment
from e2e.cluster.foreign import ForeignCluster, Kubernetes


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """A running cluster of two nodes: the sandbox's, or that of GPUSHARE_E2E_KUBECONFIG."""
    kubeconfig = os.environ.get("GPUSHARE_E2E_KUBECONFIG")
    if kubeconfig:
        yield from _foreign(Path(kubeconfig), tmp_path_factory.mktemp("cluster"))
        return
    cluster = from_environment()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _foreign(kubeconfig: Path, folder: Path) -> Iterator[Kubernetes]:
    program = Path(os.environ["GPUSHARE_E2E_PROGRAMS"]) / "kubectl"
    cluster = ForeignCluster(program, kubeconfig, folder)
    try:
        cluster.start()
        yield cluster
    finally:
        product.remove(cluster)
        cluster.stop()


@pytest.fixture(scope="session")
def sandbox(cluster: Kubernetes) -> Cluster:
    """The sandbox's cluster, for tests that stop and start its programs."""
    if not isinstance(cluster, Cluster):
        pytest.skip("stops and starts the cluster's own programs, which are somebody else's here")
    return cluster


@pytest.fixture(scope="module")
def node_daemon(cluster: Kubernetes) -> None:
    """The DaemonSet as it is shipped, ready on both nodes."""
    product.install_node_daemon(cluster)
    product.wait_for_units(cluster)


@pytest.fixture(scope="module")
def scheduler(cluster: Kubernetes, node_daemon: None) -> None:  # noqa: ARG001  # it goes first
    """The extender beside a kube-scheduler of its own, which pods come to by policy."""
    product.install_scheduler(cluster)


@pytest.fixture
def no_pods_left(cluster: Kubernetes) -> Iterator[None]:
    """A test begins and ends without pods."""
    pods.delete_all(cluster)
    yield
    pods.delete_all(cluster)
