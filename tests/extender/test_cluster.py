"""The ledger: what each node has left, after whatever the watches tell."""

from dataclasses import replace

import pytest

from gpushare_plugin.core.bookkeeping import ALLOCATION
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.pods import Phase
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.ports.cluster import Gone, Upserted
from tests.extender.clusters import Asked, free_units, node, pod, tell, told, uuid


def test_a_pod_counts_on_the_card_that_was_chosen_for_it() -> None:
    cluster = told(node("a", 15, 15), pod("p", 4, on="a", card="1"))

    assert free_units(cluster, "a") == (15, 11)


def test_where_a_pod_really_is_counts_whatever_was_chosen() -> None:
    allocation = {ALLOCATION: f'{{"main":{{"{uuid("a", 0)}":4}}}}'}
    cluster = told(node("a", 15, 15), pod("p", 4, on="a", card="1", annotations=allocation))

    assert free_units(cluster, "a") == (11, 15)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_b73_a_pod_that_ended_holds_nothing(phase: Phase) -> None:
    cluster = told(node("a", 15), pod("p", 4, on="a", card="0"))

    tell(cluster, pod("p", 4, on="a", card="0", phase=phase))

    assert free_units(cluster, "a") == (15,)


def test_b73_a_terminating_pod_holds_its_units_until_it_is_gone() -> None:
    dying = pod("p", 4, on="a", card="0", phase=Phase.RUNNING, terminating=True)
    cluster = told(node("a", 15), dying)
    assert free_units(cluster, "a") == (11,)

    cluster.pod_changed(Gone(dying))

    assert free_units(cluster, "a") == (15,)


def test_a_re_created_pod_of_the_same_name_is_another_one() -> None:
    cluster = told(node("a", 15), pod("p", 4, on="a", card="0", uid="old"))

    tell(cluster, pod("p", 6, on="a", card="0", uid="new"))
    assert free_units(cluster, "a") == (5,)

    cluster.pod_changed(Gone(pod("p", 4, on="a", card="0", uid="old")))
    assert free_units(cluster, "a") == (9,)


def test_a_pod_bound_around_us_counts_on_every_card_that_it_may_be_on() -> None:
    cluster = told(node("a", 15, 15), pod("p", 4, on="a"))

    assert free_units(cluster, "a") == (11, 11)


def test_b73_an_over_committed_card_is_below_nothing_and_never_free() -> None:
    cluster = told(node("a", 23), *(pod(str(n), 10, on="a", card="0") for n in range(3)))

    assert free_units(cluster, "a") == (-7,)
    assert Asked.of(cluster).fitting(pod("new", 1), "a") == ()


def test_pods_of_a_node_that_is_not_known_yet_count_once_it_comes() -> None:
    cluster = told(pod("p", 4, on="a", card="0"))
    assert cluster.room("a") is None

    tell(cluster, node("a", 15))

    assert free_units(cluster, "a") == (11,)


def test_a_node_that_is_deleted_and_made_again_has_its_pods_again() -> None:
    old = node("a", 15, uid="old")
    cluster = told(old, pod("p", 4, on="a", card="0"))

    cluster.node_changed(Gone(old))
    assert cluster.room("a") is None

    tell(cluster, node("a", 15, 15, uid="new"))
    assert free_units(cluster, "a") == (11, 15)


def test_the_end_of_an_old_node_does_not_end_the_new_one_of_its_name() -> None:
    cluster = told(node("a", 15, uid="old"), node("a", 23, uid="new"))

    cluster.node_changed(Gone(node("a", 15, uid="old")))

    assert free_units(cluster, "a") == (23,)


def test_more_cards_and_another_unit_take_effect_at_once() -> None:
    cluster = told(node("a", 23, 23), pod("p", 4, on="a", card="0"))
    assert free_units(cluster, "a") == (19, 23)

    tell(cluster, node("a", 40, 40, 40, 40))

    assert free_units(cluster, "a") == (36, 40, 40, 40)


def test_a_node_of_the_originals_plugin_has_its_units_divided_evenly() -> None:
    cluster = told(node("a", 20, 26, recorded=False), pod("p", 4, on="a", card="0"))

    assert free_units(cluster, "a") == (19, 23)


def test_b85_an_unhealthy_card_takes_nothing_new_and_its_pods_still_count() -> None:
    sick = {uuid("a", 0): {"state": "unhealthy", "reason": "XID 79"}}
    cluster = told(node("a", 15, 10), pod("p", 4, on="a", card="0"))
    asked = Asked.of(cluster)
    assert asked.fitting(pod("new", 11), "a") == ("a",)

    tell(cluster, node("a", 15, 10, health=sick))

    assert asked.fitting(pod("new", 11), "a") == ()
    assert asked.fitting(pod("new", 10), "a") == ("a",)
    assert free_units(cluster, "a") == (11, 10)


def test_cards_that_a_configmap_calls_unhealthy_are_out_until_it_does_no_more() -> None:
    cluster = told(node("a", 15, 10))
    asked = Asked.of(cluster)

    cluster.unhealthy_changed("a", frozenset({0}))
    assert asked.fitting(pod("new", 11), "a") == ()

    cluster.unhealthy_changed("a", frozenset())
    assert asked.fitting(pod("new", 11), "a") == ("a",)


def test_what_a_configmap_says_of_a_node_that_comes_later_is_not_forgotten() -> None:
    cluster = Cluster(ALIYUN)
    cluster.unhealthy_changed("a", frozenset({0}))

    tell(cluster, node("a", 15))

    assert Asked.of(cluster).fitting(pod("new", 1), "a") == ()


def test_b85_a_node_that_is_not_ready_takes_nothing_new_and_comes_back() -> None:
    cluster = told(node("a", 15, ready=False))
    asked = Asked.of(cluster)
    assert asked.fitting(pod("new", 1), "a") == ()

    tell(cluster, node("a", 15))

    assert asked.fitting(pod("new", 1), "a") == ("a",)


def test_news_that_a_bound_pod_has_no_node_is_old() -> None:
    cluster = told(node("a", 15), pod("p", 4, on="a", card="0"))

    tell(cluster, pod("p", 4))

    assert free_units(cluster, "a") == (11,)


def test_a_pod_that_gets_its_card_later_is_moved_there() -> None:
    cluster = told(node("a", 15, 15), pod("p", 4, on="a"))
    assert free_units(cluster, "a") == (11, 11)

    tell(cluster, pod("p", 4, on="a", card="1"))

    assert free_units(cluster, "a") == (15, 11)


def test_the_generation_grows_with_what_changes_the_room_and_with_nothing_else() -> None:
    cluster = told(node("a", 15), pod("p", 4, on="a", card="0"))
    before = cluster.generation

    tell(cluster, node("a", 15))
    tell(cluster, pod("p", 4, on="a", card="0"))
    tell(cluster, pod("waiting", 4))
    tell(cluster, pod("of another kind", 0, on="a"))
    assert cluster.generation == before

    tell(cluster, pod("q", 4, on="a", card="0"))
    assert cluster.changed_since(before) == {"a"}


def test_who_was_here_too_long_ago_is_told_to_begin_anew() -> None:
    cluster = told(node("a", 15))
    for number in range(5000):
        tell(cluster, pod("p", 1 + number % 2, on="a", card="0"))

    assert cluster.changed_since(0) is None
    assert cluster.changed_since(cluster.generation) == set()


def test_an_assumed_pod_counts_until_the_watch_shows_it_and_once_only() -> None:
    cluster = told(node("a", 15))
    bound = pod("p", 4, on="a", card="0")

    cluster.assumptions.assume(bound, (0,), now_seconds=0.0)
    assert free_units(cluster, "a") == (11,)

    tell(cluster, bound)
    assert free_units(cluster, "a") == (11,)
    assert not len(cluster.assumptions)


def test_an_assumed_pod_that_is_gone_holds_nothing_at_once() -> None:
    cluster = told(node("a", 15), pod("p", 4))
    cluster.assumptions.assume(pod("p", 4, on="a", card="0"), (0,), now_seconds=0.0)

    cluster.pod_changed(Gone(pod("p", 4)))

    assert free_units(cluster, "a") == (15,)


def test_an_assumption_is_settled_by_the_pod_being_bound_elsewhere() -> None:
    cluster = told(node("a", 15), node("b", 15))
    cluster.assumptions.assume(pod("p", 4, on="a", card="0"), (0,), now_seconds=0.0)

    tell(cluster, pod("p", 4, on="b", card="0"))

    assert free_units(cluster, "a") == (15,)
    assert free_units(cluster, "b") == (11,)


def test_an_update_of_the_unbound_pod_settles_nothing() -> None:
    cluster = told(node("a", 15), pod("p", 4))
    cluster.assumptions.assume(pod("p", 4, on="a", card="0"), (0,), now_seconds=0.0)

    tell(cluster, replace(pod("p", 4), annotations={"touched": "yes"}))

    assert free_units(cluster, "a") == (11,)


def test_b69_a_pod_is_not_in_its_own_way() -> None:
    cluster = told(node("a", 15))
    cluster.assumptions.assume(pod("p", 15, on="a", card="0"), (0,), now_seconds=0.0)
    asked = Asked.of(cluster)

    assert asked.fitting(pod("p", 15), "a") == ("a",)
    assert asked.fitting(pod("other", 1), "a") == ()


def test_whoever_listens_is_told_of_each_node_that_changed() -> None:
    cluster = told(node("a", 15))
    heard: list[str] = []
    cluster.on_change(heard.append)

    tell(cluster, pod("p", 4, on="a", card="0"))
    cluster.pod_changed(Upserted(pod("p", 4, on="a", card="0", phase=Phase.SUCCEEDED)))

    assert heard == ["a", "a"]
