"""The extender for the cluster's own kube-scheduler: mutual TLS, two replicas, one leads."""

from collections.abc import Iterator

import pytest

from e2e import agreement, pods, product, shared_extender
from e2e.cluster.cluster import Cluster
from e2e.cluster.programs import wait_until
from e2e.product import CARD_UNITS, SYSTEM

pytestmark = pytest.mark.usefixtures("node_daemon", "installed", "no_pods_left")


@pytest.fixture(scope="module")
def installed(sandbox: Cluster) -> Iterator[None]:
    """The shared way; the cluster's scheduler is as before in the end."""
    shared_extender.install(sandbox)
    yield
    shared_extender.remove(sandbox)


def test_the_clusters_scheduler_fills_every_card_by_the_leader(sandbox: Cluster) -> None:
    sandbox.kubectl.apply(*(pods.pod(f"shared-{number}", 3) for number in range(24)))

    pods.wait_running(sandbox, 20)

    agreement.assert_all_agree(sandbox)
    assert sorted(pods.held_units(sandbox).values()) == [CARD_UNITS] * 4
    assert sorted(pods.phases(sandbox).values()) == ["Pending"] * 4 + ["Running"] * 20
    assert len(shared_extender.leaders(sandbox)) == 1


def test_when_the_leader_is_killed_in_a_burst_the_other_goes_on(sandbox: Cluster) -> None:
    (leader,) = shared_extender.leaders(sandbox)
    sandbox.kubectl.apply(*(pods.pod(f"burst-{number}", 3) for number in range(20)))
    pods.wait_any_running(sandbox)

    sandbox.kubectl.delete("pod", leader, namespace=SYSTEM, now=True)

    pods.wait_running(sandbox, 20)
    agreement.assert_all_agree(sandbox)
    assert sorted(pods.held_units(sandbox).values()) == [CARD_UNITS] * 4
    wait_until(lambda: len(shared_extender.leaders(sandbox)) == 1, what="one pod leads", seconds=30)
    product.wait_for_rollout(sandbox, f"deployment/{shared_extender.NAME}")
