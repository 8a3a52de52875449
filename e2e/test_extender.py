"""The extender beside a real kube-scheduler, in a Deployment of its own, over real nodes."""

from collections.abc import Iterator

import pytest

from e2e import product
from e2e.cluster.cluster import Cluster
from e2e.cluster.programs import wait_until

CARD_UNITS = 15


@pytest.fixture(scope="module", autouse=True)
def installed(cluster: Cluster) -> None:
    product.install_node_daemon(cluster)
    product.wait_for_units(cluster)
    product.install_scheduler(cluster)


@pytest.fixture(autouse=True)
def no_pods_left(cluster: Cluster) -> Iterator[None]:
    yield
    product.delete_pods(cluster)


def test_forty_equal_pods_fill_the_cards_and_none_is_rejected(cluster: Cluster) -> None:
    names = [f"equal-{number}" for number in range(24)]
    # Five of three units fill a card; four cards hold twenty.
    cluster.kubectl.apply(*(product.pod(name, 3) for name in names))

    wait_until(
        lambda: sum(phase == "Running" for phase in product.phases(cluster).values()) == 20,
        what="twenty pods running",
        seconds=120,
    )

    assert sorted(product.phases(cluster).values()) == ["Pending"] * 4 + ["Running"] * 20
    held = product.held_units(cluster)
    assert sorted(held.values()) == [CARD_UNITS] * 4
    for name in names:
        if product.phases(cluster)[name] == "Running":
            product.agrees(cluster, name)


def test_a_pod_larger_than_any_card_waits_and_is_told_why(cluster: Cluster) -> None:
    cluster.kubectl.apply(product.pod("large", 20))

    message = product.unscheduled(cluster, "large")

    assert "15" in message
    assert "20" in message
    assert product.phases(cluster) == {"large": "Pending"}
