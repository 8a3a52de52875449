"""The extender's leader and the API server go away in the middle of things."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import agreement, daemons, pods, product
from e2e.cluster.cluster import Cluster
from e2e.cluster.foreign import Kubernetes
from e2e.product import CARD_UNITS, SYSTEM

pytestmark = pytest.mark.usefixtures("scheduler", "no_pods_left")
AWAY_SECONDS = 30
LEASE = "gpushare-scheduler"


@pytest.fixture
def api(sandbox: Cluster) -> Iterator[Cluster]:
    """A cluster whose API server runs in the end."""
    yield sandbox
    sandbox.control_plane.wait_ready()
    product.wait_for_units(sandbox)


def test_an_extenders_leader_killed_in_a_burst_of_binds_over_commits_no_card(
    cluster: Kubernetes,
) -> None:
    cluster.kubectl.apply(*(pods.pod(f"burst-{number}", 3) for number in range(20)))
    pods.wait_any_running(cluster)

    cluster.kubectl.delete("pod", _leader(cluster), namespace=SYSTEM, now=True)

    pods.wait_running(cluster, 20)
    agreement.assert_all_agree(cluster)
    assert sorted(pods.held_units(cluster).values()) == [CARD_UNITS] * 4
    assert not _overcommits(cluster)
    product.wait_for_rollout(cluster, "deployment/gpushare-scheduler")


def test_while_the_api_server_is_away_pods_run_on_and_after_it_all_is_as_before(
    api: Cluster,
) -> None:
    api.kubectl.apply(*(pods.pod(f"before-{number}", 5) for number in range(6)))
    pods.wait_running(api, 6)
    restarts = daemons.restarts(api)

    api.control_plane.api.stop(signal.SIGKILL)
    time.sleep(AWAY_SECONDS)
    api.control_plane.api.start()
    api.control_plane.wait_ready()

    api.kubectl.apply(*(pods.pod(f"after-{number}", 5) for number in range(6)))
    pods.wait_running(api, 12)
    agreement.assert_all_agree(api)
    assert sorted(pods.held_units(api).values()) == [CARD_UNITS] * 4
    assert set(pods.restarts(api).values()) == {0}
    assert daemons.restarts(api) == restarts


def _leader(cluster: Kubernetes) -> str:
    lease: Any = cluster.kubectl.get("lease", LEASE, SYSTEM)
    # kube-scheduler calls itself by its host's name, which is its pod's, and a UID.
    holder: str = lease["spec"]["holderIdentity"]
    return holder.split("_", maxsplit=1)[0]


def _overcommits(cluster: Kubernetes) -> list[float]:
    counts = [
        daemons.metric(cluster, node, "gpushare_overcommits_total") for node in cluster.node_names
    ]
    return [value for each in counts for value in each.values() if value]
