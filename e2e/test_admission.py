"""The admission policies, decided by a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import pods, product
from e2e.cluster.foreign import Kubernetes
from e2e.cluster.kubectl import Refused
from e2e.cluster.programs import wait_until
from e2e.product import SYSTEM

pytestmark = pytest.mark.usefixtures("no_pods_left")
CONFIG_MAP = "gpushare-admission"
DRY_RUN = ("apply", "--dry-run=server", "-f", "-")


def _with_env(pod: dict[str, Any]) -> dict[str, Any]:
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    pod["spec"]["containers"][0]["env"] = [variable]
    return pod


def _with_mount(pod: dict[str, Any]) -> dict[str, Any]:
    mount = {"name": "own", "mountPath": "/etc/gpushare"}
    pod["spec"]["containers"][0]["volumeMounts"] = [mount]
    pod["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    return pod


REFUSED = {
    "its own variable": (_with_env(pods.pod("bad", 4)), "sets a variable that carries"),
    "a hiding volume": (_with_mount(pods.pod("bad", 4)), "would hide what keeps it"),
    "no number of cards": (
        pods.pod("bad", 4, annotations={"gpushare.io/gpu-count": "two"}),
        'gpu-count is "two"',
    ),
    "units that do not divide": (
        pods.pod("bad", 3, annotations={"gpushare.io/gpu-count": "2"}),
        "must divide by",
    ),
    "bookkeeping": (pods.pod("bad", 4, annotations={pods.INDEX: "0"}), "is the record of what"),
}


@pytest.fixture(scope="module")
def warning(cluster: Kubernetes) -> Iterator[None]:
    """The policies in their first mode."""
    product.apply(cluster, "admission/pods.yaml")
    yield
    product.take_away(cluster, "admission/pods.yaml")


@pytest.fixture
def denying(cluster: Kubernetes, warning: None) -> Iterator[None]:  # noqa: ARG001  # it goes first
    """The policies in their second mode."""
    product.apply(cluster, "admission/pods-deny.yaml")
    yield
    product.apply(cluster, "admission/pods.yaml")


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.usefixtures("warning")
def test_the_first_mode_warns_and_lets_the_pod_in(cluster: Kubernetes, case: str) -> None:
    pod, words = REFUSED[case]

    wait_until(
        lambda: words in cluster.kubectl.said(*DRY_RUN, stdin=_text(pod))[1],
        what=f"a warning of {case}",
        seconds=20,
    )


@pytest.mark.usefixtures("denying")
def test_the_second_mode_refuses_and_says_why(cluster: Kubernetes) -> None:
    for case, (pod, words) in REFUSED.items():
        _wait_refused(cluster, pod, words, case)
    assert not cluster.kubectl.said(*DRY_RUN, stdin=_text(pods.pod("good", 4)))[1]


@pytest.mark.usefixtures("denying")
def test_without_its_config_map_only_the_administrators_limit_is_gone(cluster: Kubernetes) -> None:
    limit = (pods.pod("bad", 4), "may ask for at most 3")
    change = '{"data":{"most-units":"3"}}'
    cluster.kubectl("-n", SYSTEM, "patch", "configmap", CONFIG_MAP, "--type=merge", "-p", change)
    _wait_refused(cluster, *limit, "more than the administrator's limit")

    cluster.kubectl("-n", SYSTEM, "delete", "configmap", CONFIG_MAP)

    wait_until(
        lambda: cluster.kubectl(*DRY_RUN, stdin=_text(limit[0])), what="no limit", seconds=20
    )
    _wait_refused(cluster, *REFUSED["no number of cards"], "no number of cards")


def test_a_pod_that_takes_all_cards_without_asking_is_refused(cluster: Kubernetes) -> None:
    product.apply(cluster, "admission/all-gpus.yaml")
    try:
        _wait_refused(cluster, _with_env(pods.pod("taker", 0)), "asks for no GPU", "all cards")
    finally:
        product.take_away(cluster, "admission/all-gpus.yaml")


def test_pods_that_ask_for_a_share_go_to_our_scheduler_and_others_do_not(
    cluster: Kubernetes,
) -> None:
    product.apply(cluster, "admission/scheduler-name.yaml")

    wait_until(
        lambda: _scheduler(cluster, pods.pod("sharing", 4)) == "gpushare-scheduler",
        what="our scheduler on a pod that asks for a share",
        seconds=20,
    )

    assert _scheduler(cluster, pods.pod("other", 0)) == "default-scheduler"
    assert _scheduler(cluster, pods.pod("own", 4, schedulerName="mine")) == "mine"
    assert _scheduler(cluster, pods.pod("fixed", 4, nodeName="node-a")) == "default-scheduler"


def _scheduler(cluster: Kubernetes, pod: dict[str, Any]) -> str:
    text = cluster.kubectl(*DRY_RUN, "-o", "json", stdin=_text(pod))
    name: str = json.loads(text)["spec"]["schedulerName"]
    return name


def _wait_refused(cluster: Kubernetes, pod: dict[str, Any], words: str, case: str) -> None:
    def refused() -> bool:
        try:
            cluster.kubectl(*DRY_RUN, stdin=_text(pod))
        except Refused as error:
            return words in str(error)
        return False

    wait_until(refused, what=f"{case} refused", seconds=20)


def _text(pod: dict[str, Any]) -> str:
    return json.dumps(pod)
