"""The cluster itself, before anything of ours is in it."""

from e2e.cluster.cluster import Cluster
from e2e.cluster.images import BUSYBOX


def test_a_pod_runs(cluster: Cluster) -> None:
    container = {"name": "main", "image": BUSYBOX, "command": ["sleep", "1000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec}
    cluster.kubectl.apply(pod)

    cluster.kubectl.wait_phase("plain", ["Running"])

    assert cluster.kubectl("exec", "plain", "--", "echo", "hello") == "hello\n"
    cluster.kubectl.delete("pod", "plain")
