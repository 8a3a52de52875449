"""The cluster itself, before anything of ours is in it."""

import pytest

from e2e import pods
from e2e.cluster.foreign import Kubernetes

pytestmark = pytest.mark.usefixtures("no_pods_left")


def test_a_pod_runs(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(pods.pod("plain", 0))

    pods.wait_running(cluster, 1)

    assert cluster.kubectl("exec", "plain", "--", "echo", "hello") == "hello\n"
