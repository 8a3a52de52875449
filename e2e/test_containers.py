"""Pods of several containers: the kubelet asks for each by itself, the card is the pod's."""

import pytest

from e2e import agreement, pods
from e2e.cluster.foreign import Kubernetes

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


def test_a_container_is_on_the_card_that_the_extender_chose(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(pods.pod("chosen", 4, annotations={"gpushare.io/gpu-index": "1"}))

    pods.wait_running(cluster, 1)

    assert pods.environment(cluster, "chosen")[pods.INDEX] == "1"
    agreement.assert_all_agree(cluster)


def test_two_containers_of_a_pod_are_on_one_card(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(pods.pod("pair", 4, 6))

    pods.wait_running(cluster, 1)

    allocation = pods.wait_allocations(cluster, ["pair"])["pair"]
    assert [list(cards.values()) for _, cards in sorted(allocation.items())] == [[4], [6]]
    assert allocation["main-0"].keys() == allocation["main-1"].keys()
    assert pods.environment(cluster, "pair")["ALIYUN_COM_GPU_MEM_POD"] == "10"
    agreement.assert_all_agree(cluster)


def test_an_init_containers_units_go_to_the_container_after_it(cluster: Kubernetes) -> None:
    first = pods.container("first", 6, "sh", "-c", "env > /dev/termination-log")
    cluster.kubectl.apply(pods.pod("two-steps", 4, initContainers=[first]))

    pods.wait_running(cluster, 1)

    (status,) = cluster.kubectl.get("pod", "two-steps")["status"]["initContainerStatuses"]
    told = status["state"]["terminated"]["message"]
    now = pods.environment(cluster, "two-steps")
    assert f"NVIDIA_VISIBLE_DEVICES={now['NVIDIA_VISIBLE_DEVICES']}\n" in told
    assert "ALIYUN_COM_GPU_MEM_CONTAINER=6\n" in told
    agreement.assert_all_agree(cluster)


def test_a_sidecar_shares_the_card_of_its_pod(cluster: Kubernetes) -> None:
    sidecar = {**pods.container("beside", 3), "restartPolicy": "Always"}
    cluster.kubectl.apply(pods.pod("accompanied", 4, initContainers=[sidecar]))

    pods.wait_running(cluster, 1)

    beside = pods.environment(cluster, "accompanied", "beside")
    main = pods.environment(cluster, "accompanied")
    assert beside["NVIDIA_VISIBLE_DEVICES"] == main["NVIDIA_VISIBLE_DEVICES"]
    assert beside["ALIYUN_COM_GPU_MEM_POD"] == "7"
    agreement.assert_all_agree(cluster)


def test_a_pod_of_two_cards_gets_half_of_its_units_on_each(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(pods.pod("wide", 8, annotations={"gpushare.io/gpu-count": "2"}))

    pods.wait_running(cluster, 1)

    cards = pods.wait_allocations(cluster, ["wide"])["wide"]["main-0"]
    assert sorted(cards.values()) == [4, 4]
    visible = pods.environment(cluster, "wide")["NVIDIA_VISIBLE_DEVICES"]
    assert sorted(visible.split(",")) == sorted(cards)
