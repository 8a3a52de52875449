"""The extender beside a real kube-scheduler, in a Deployment of its own, over real nodes."""

import time

import pytest

from e2e import agreement, daemons, pods
from e2e.cluster.foreign import Kubernetes
from e2e.product import CARD_UNITS, NODE_UNITS

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")


def test_forty_equal_pods_at_once_are_told_what_kubelet_and_annotations_tell(
    cluster: Kubernetes,
) -> None:
    calls_before = _lookups(cluster)
    cluster.kubectl.apply(*(pods.pod(f"equal-{number}", 1) for number in range(40)))

    pods.wait_running(cluster, 40)

    agreement.assert_all_agree(cluster)
    # Rule 3 of the design: the kubelet's list told one pod at every call. On a slow machine it
    # may not come in time, which is another thing.
    calls = _lookups(cluster)
    changed = {each for each, count in calls.items() if count != calls_before.get(each, 0)}
    assert changed <= {'answer="known"', 'answer="failed"'}
    assert calls['answer="known"'] > calls_before.get('answer="known"', 0)


def test_pods_fill_every_card_and_none_is_rejected(cluster: Kubernetes) -> None:
    # Five of three units fill a card; four cards hold twenty.
    cluster.kubectl.apply(*(pods.pod(f"third-{number}", 3) for number in range(24)))

    pods.wait_running(cluster, 20)

    assert sorted(pods.phases(cluster).values()) == ["Pending"] * 4 + ["Running"] * 20
    assert sorted(pods.held_units(cluster).values()) == [CARD_UNITS] * 4


def test_a_pod_larger_than_any_card_waits_and_is_told_why(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(pods.replicas("large", 2, 20))

    def names() -> list[str]:
        return list(pods.phases(cluster))

    while len(names()) < 2:
        time.sleep(0.2)
    message = pods.unscheduled(cluster, names()[0])

    assert "15" in message
    assert "20" in message
    time.sleep(3)
    assert list(pods.phases(cluster).values()) == ["Pending"] * 2


def test_a_replica_set_over_capacity_fills_the_cards_and_makes_no_dead_pods(
    cluster: Kubernetes,
) -> None:
    cluster.kubectl.apply(pods.replicas("many", 16, 5))

    pods.wait_running(cluster, 12)

    time.sleep(5)
    assert sorted(pods.phases(cluster).values()) == ["Pending"] * 4 + ["Running"] * 12
    assert sum(pods.held_units(cluster).values()) == 2 * NODE_UNITS


def test_a_pod_that_waits_follows_when_another_ends(cluster: Kubernetes) -> None:
    cluster.kubectl.apply(*(pods.pod(f"full-{number}", 15) for number in range(4)))
    pods.wait_running(cluster, 4)
    cluster.kubectl.apply(pods.pod("next", 15))
    pods.unscheduled(cluster, "next")

    cluster.kubectl.delete("pod", "full-2")

    cluster.kubectl.wait_phase("next", ["Running"])


def test_pods_that_bypass_the_scheduler_are_counted_on_the_card_they_got(
    cluster: Kubernetes,
) -> None:
    node = cluster.node_names[0]
    bypassing = [pods.pod(f"around-{number}", 10, nodeName=node) for number in range(2)]
    cluster.kubectl.apply(*bypassing)
    pods.wait_running(cluster, 2)
    pods.wait_allocations(cluster, ["around-0", "around-1"])

    cluster.kubectl.apply(*(pods.pod(f"after-{number}", 6) for number in range(4)))
    pods.wait_running(cluster, 6)

    placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods.listed(cluster)}
    assert {placed[f"after-{number}"] for number in range(4)} == {cluster.node_names[1]}
    assert max(pods.held_units(cluster).values()) <= CARD_UNITS


def _lookups(cluster: Kubernetes) -> dict[str, float]:
    total: dict[str, float] = {}
    for node in cluster.node_names:
        for labels, value in daemons.metric(cluster, node, "gpushare_pod_lookups_total").items():
            total[labels] = total.get(labels, 0) + value
    return total
