"""What a node's daemon may do with its token: its own node and pods, and of these a little."""

from collections.abc import Iterator

import pytest

from e2e import daemons, pods
from e2e.bearer import Bearer
from e2e.cluster.foreign import Kubernetes
from e2e.cluster.kubectl import NAMESPACE, Refused
from e2e.product import COUNT, RESOURCE, SYSTEM

pytestmark = pytest.mark.usefixtures("node_daemon")
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path


@pytest.fixture(scope="module")
def theirs(cluster: Kubernetes) -> Bearer:
    """Whoever has the token of the first node's daemon."""
    name = daemons.pods(cluster)[cluster.node_names[0]]["metadata"]["name"]
    token = cluster.kubectl("-n", SYSTEM, "exec", name, "--", "cat", TOKEN)
    return Bearer(cluster, token)


@pytest.fixture(scope="module", autouse=True)
def pods_of_both_nodes(cluster: Kubernetes) -> Iterator[None]:
    """A pod on each node."""
    for number, node in enumerate(cluster.node_names):
        cluster.kubectl.apply(pods.pod(f"of-{number}", 0, nodeName=node))
    pods.wait_running(cluster, len(cluster.node_names))
    yield
    pods.delete_all(cluster)


def test_it_may_write_its_own_keys_on_its_node_and_pods(
    cluster: Kubernetes, theirs: Bearer
) -> None:
    for value in ("1", None):
        change = {"metadata": {"labels": {"gpushare.io/x": value}}}
        theirs.patch(_status(cluster, "node", 0), change)
        theirs.patch(_status(cluster, "pod", 0), {"metadata": {"annotations": {pods.INDEX: value}}})


@pytest.mark.parametrize(
    ("kind", "number", "change", "words"),
    [
        ("node", 1, {"metadata": {"annotations": {"gpushare.io/x": "1"}}}, "may not change node"),
        ("node", 0, {"metadata": {"labels": {"other": "1"}}}, "labels of a node: other"),
        ("node", 0, {"status": {"capacity": {RESOURCE: "99"}}}, "these resources of a node"),
        ("node", 0, {"status": {"capacity": {"cpu": "99"}}}, "these resources of a node: cpu"),
        ("node", 0, {"status": {"phase": "Pending"}}, "parts of the status of a node"),
        (
            "pod",
            1,
            {"metadata": {"annotations": {pods.ALLOCATION: "1"}}},
            "may not change a pod of",
        ),
        ("pod", 0, {"metadata": {"annotations": {"other": "1"}}}, "annotations of a pod: other"),
        ("pod", 0, {"metadata": {"labels": {"other": "1"}}}, "may not change the labels"),
        ("pod", 0, {"status": {"reason": "Because"}}, "may not change the status of a pod"),
    ],
)
def test_all_else_is_refused_by_the_policy(
    cluster: Kubernetes, theirs: Bearer, kind: str, number: int, change: object, words: str
) -> None:
    with pytest.raises(Refused, match=words):
        theirs.patch(_status(cluster, kind, number), change)


def test_by_rbac_it_reads_no_secret_and_changes_no_spec(
    cluster: Kubernetes, theirs: Bearer
) -> None:
    with pytest.raises(Refused, match="cannot list resource"):
        theirs.get(f"/api/v1/namespaces/{SYSTEM}/secrets")
    for kind in ("node", "pod"):
        with pytest.raises(Refused, match="cannot patch resource"):
            theirs.patch(_status(cluster, kind, 0).removesuffix("/status"), {"spec": {}})


def test_a_token_that_names_no_node_is_refused(cluster: Kubernetes) -> None:
    token = cluster.kubectl("-n", SYSTEM, "create", "token", "gpushare-node").strip()
    change = {"metadata": {"annotations": {"gpushare.io/x": "1"}}}

    with pytest.raises(Refused, match="the token names no node"):
        Bearer(cluster, token).patch(_status(cluster, "node", 0), change)


def test_the_daemon_itself_is_never_denied(cluster: Kubernetes) -> None:
    for node in cluster.node_names:
        log = daemons.log(cluster, node)
        assert "denied" not in log
        assert "forbidden" not in log
        failures = daemons.metric(cluster, node, "gpushare_publish_failures_total")
        assert not any(failures.values())
        assert cluster.kubectl.get("node", node)["status"]["capacity"][COUNT] == "2"


def _status(cluster: Kubernetes, kind: str, number: int) -> str:
    if kind == "node":
        return f"/api/v1/nodes/{cluster.node_names[number]}/status"
    return f"/api/v1/namespaces/{NAMESPACE}/pods/of-{number}/status"
