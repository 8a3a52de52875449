"""Preempt: nobody is evicted who does not make room on one card."""

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.preempting import GivenVictims, Preempting
from tests.extender.clusters import node, pod, told


def preempted(cluster: Cluster, asking: Pod, **given: tuple[str, ...]) -> dict[str, GivenVictims]:
    preempting = Preempting(cluster, Fits(cluster, ALIYUN, Policy.BINPACK))
    victims = {name: GivenVictims(uids=uids, pdb_violations=1) for name, uids in given.items()}
    return dict(preempting.preempt(asking, victims))


def important(units: int, **annotations: str) -> Pod:
    return pod("new", units, priority=100, annotations=annotations)


def test_b78_small_pieces_on_two_cards_become_room_on_one() -> None:
    cluster = told(
        node("a", 8, 8),
        pod("p0", 4, on="a", card="0"),
        pod("p1", 4, on="a", card="0"),
        pod("q0", 4, on="a", card="1"),
        pod("q1", 4, on="a", card="1"),
    )

    found = preempted(cluster, important(8), a=("uid-p0", "uid-q0"))

    assert set(found) == {"a"}
    assert sorted(found["a"].uids) in (["uid-p0", "uid-p1"], ["uid-q0", "uid-q1"])
    assert found["a"].pdb_violations == 1


def test_b78_a_victim_on_another_card_is_spared() -> None:
    cluster = told(node("a", 8, 8), pod("p", 8, on="a", card="0"), pod("q", 8, on="a", card="1"))

    found = preempted(cluster, important(8), a=("uid-q", "uid-p"))

    assert len(found["a"].uids) == 1


def test_b78_a_node_where_no_eviction_helps_is_dropped() -> None:
    cluster = told(
        node("small", 4), node("a", 8), node("away", 8, ready=False), pod("p", 8, on="a", card="0")
    )

    found = preempted(
        cluster, important(8), small=("uid-x",), a=("uid-p",), away=("uid-y",), no=("uid-z",)
    )

    assert set(found) == {"a"}


def test_nobody_of_the_same_or_a_higher_priority_goes() -> None:
    cluster = told(node("a", 8), pod("p", 8, on="a", card="0", priority=100))

    assert preempted(cluster, important(8), a=("uid-other",)) == {}


def test_victims_that_hold_none_of_our_units_stay_in_the_set() -> None:
    cluster = told(node("a", 8), pod("p", 8, on="a", card="0"))

    found = preempted(cluster, important(8), a=("uid-cpu", "uid-p"))

    assert found["a"].uids == ("uid-cpu", "uid-p")


def test_a_node_is_never_answered_without_a_victim() -> None:
    assert preempted(told(node("a", 8)), important(8), a=()) == {}


def test_a_pod_that_is_only_assumed_yet_is_no_victim_unless_it_is_given() -> None:
    cluster = told(node("a", 8))
    cluster.assumptions.assume(pod("p", 8, on="a", card="0"), (0,), now_seconds=0.0)

    assert preempted(cluster, important(8), a=("uid-cpu",)) == {}
    assert preempted(cluster, important(8), a=("uid-p",))["a"].uids == ("uid-p",)


def test_a_pod_that_asks_for_nothing_of_ours_keeps_what_was_given() -> None:
    given = {"a": GivenVictims(uids=("uid-x",), pdb_violations=1)}

    assert preempted(told(node("a", 8)), important(0), a=("uid-x",)) == given


def test_a_pod_with_a_fault_preempts_nobody() -> None:
    wrong = important(8, **{"gpushare.io/gpu-index": "x"})

    assert preempted(told(node("a", 8)), wrong, a=("uid-x",)) == {}
