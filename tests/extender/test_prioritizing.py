"""Prioritize: the node of the best card comes first, by the same policy as the card."""

import pytest

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.fitting import Misfit
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.prioritizing import Prioritizing
from tests.extender.clusters import names, node, pod, tell, told


def scored(
    cluster: Cluster, asking: Pod, *node_names: str, policy: Policy = Policy.BINPACK
) -> dict[str, int]:
    prioritizing = Prioritizing(cluster, Fits(cluster, ALIYUN, policy))
    found = prioritizing.prioritize(asking, names(*node_names))
    assert tuple(name for name, _ in found) == node_names
    return dict(found)


def test_binpack_likes_the_card_that_is_filled_and_spread_the_one_that_stays_free() -> None:
    cluster = told(node("tight", 8, 15), node("wide", 15), pod("p", 4, on="tight", card="0"))

    packed = scored(cluster, pod("new", 4), "wide", "tight")
    spread = scored(cluster, pod("new", 4), "wide", "tight", policy=Policy.SPREAD)

    assert packed["tight"] == 10
    assert packed["wide"] < 10
    assert spread["wide"] == 10


def test_the_pods_own_policy_goes_first() -> None:
    cluster = told(node("tight", 4), node("wide", 15))
    wish = {"gpushare.io/policy": "spread"}

    assert scored(cluster, pod("new", 4, annotations=wish), "tight", "wide")["wide"] == 10


def test_one_node_alone_has_ten_among_equals() -> None:
    cluster = told(*(node(name, 15) for name in "abcd"))

    found = scored(cluster, pod("new", 4), "d", "c", "b", "a")

    assert found["a"] == 10
    assert set(found.values()) == {10, 9}


def test_a_node_that_does_not_fit_or_is_not_known_has_nothing() -> None:
    cluster = told(node("a", 15), node("full", 3), node("cpu"))

    assert scored(cluster, pod("new", 4), "full", "a", "cpu", "no") == {
        "full": 0,
        "a": 10,
        "cpu": 0,
        "no": 0,
    }


@pytest.mark.parametrize(
    "asking", [pod("new", 0), pod("new", 4, annotations={"gpushare.io/gpu-index": "x"})]
)
def test_a_pod_that_asks_for_nothing_or_for_nonsense_ranks_nobody(asking: Pod) -> None:
    assert scored(told(node("a", 15)), asking, "a", "b") == {"a": 0, "b": 0}


def test_pods_that_follow_the_best_score_fill_card_after_card() -> None:
    cluster = told(node("a", 8, 8), node("b", 8))
    fits = Fits(cluster, ALIYUN, Policy.BINPACK)
    prioritizing = Prioritizing(cluster, fits)
    placed = []
    for number in range(6):
        asking = pod(f"p{number}", 4)
        best = max(prioritizing.prioritize(asking, names("b", "a")), key=lambda each: each[1])[0]
        outcome = fits.outcome(best, fits.ask_of(asking), uid=asking.uid)
        assert not isinstance(outcome, Misfit)
        placed.append((best, outcome[0].card.index))
        tell(cluster, pod(f"p{number}", 4, on=best, card=str(placed[-1][1])))

    assert placed == [("a", 0), ("a", 0), ("a", 1), ("a", 1), ("b", 0), ("b", 0)]
