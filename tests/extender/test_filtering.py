"""Filter: which nodes have one card with room, and why the others have not."""

import gc
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.fitting import Misfit, fit
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.room import NodeRoom
from gpushare_plugin.ports.cluster import Gone, Node
from tests.extender.clusters import Asked, names, node, pod, tell, told, uuid


def test_a_node_fits_by_one_card_and_not_by_the_sum_of_its_cards() -> None:
    cluster = told(node("gpu-a", 8, 8), pod("p", 5, on="gpu-a", card="0"))
    asked = Asked.of(cluster)

    assert asked.fitting(pod("new", 8), "gpu-a") == ("gpu-a",)
    tell(cluster, pod("q", 5, on="gpu-a", card="1"))

    answer = asked.filtering.filter(pod("new", 6), names("gpu-a"))
    assert answer.fitting == ()
    assert answer.failed == {
        "gpu-a": "gpu-a: largest free card has 3 of 6 GiB asked; 6 GiB free in all"
    }
    assert answer.unresolvable == {}


def test_b84_what_no_eviction_could_make_room_for_is_told_apart() -> None:
    cluster = told(node("a", 8), node("cpu"), node("away", 8, ready=False))

    answer = Asked.of(cluster).filtering.filter(pod("new", 9), names("a", "cpu", "away", "no"))

    assert answer.fitting == ()
    assert answer.failed == {}
    assert set(answer.unresolvable) == {"a", "cpu", "away", "no"}
    assert answer.unresolvable["no"] == "no: the API server has told of no such node (yet)"


def test_b67_no_node_is_answered_that_was_not_asked_about() -> None:
    cluster = told(node("a", 8), node("b", 8), node("c", 8))

    answer = Asked.of(cluster).filtering.filter(pod("new", 1), names("c", "gone", "a"))

    assert answer.fitting == (0, 2)
    assert set(answer.failed) | set(answer.unresolvable) == {"gone"}


def test_a_pod_that_asks_for_nothing_passes_everywhere() -> None:
    answer = Asked.of(told()).filtering.filter(pod("new", 0), names("a", "b"))

    assert answer.fitting == (0, 1)
    assert not answer.failed
    assert not answer.unresolvable


def test_a_pod_with_a_fault_fits_nowhere_and_every_node_says_why() -> None:
    wrong = pod("new", 4, annotations={"gpushare.io/policy": "densest"})

    answer = Asked.of(told(node("a", 8))).filtering.filter(wrong, names("a", "b"))

    assert answer.fitting == ()
    assert set(answer.unresolvable) == {"a", "b"}
    assert "densest" in answer.unresolvable["b"]


def test_b79_five_pods_of_ten_fit_on_four_cards_of_23_and_eight_in_all() -> None:
    cluster = told(node("a", 23, 23, 23, 23))
    asked = Asked.of(cluster)
    for number in range(8):
        outcome = asked.fits.outcome("a", asked.fits.ask_of(pod("new", 10)), uid="")
        assert not isinstance(outcome, Misfit)
        tell(cluster, pod(f"p{number}", 10, on="a", card=str(outcome[0].card.index)))

    assert asked.reason(pod("new", 10), "a") == (
        "a: largest free card has 3 of 10 GiB asked; 12 GiB free in all"
    )


def test_the_answer_is_the_same_object_until_something_changes() -> None:
    cluster = told(node("a", 8))
    filtering, listed = Asked.of(cluster).filtering, names("a")
    first = filtering.filter(pod("new", 4), listed)

    assert filtering.filter(pod("another", 4), listed) is first
    assert filtering.filter(pod("another", 5), listed) is not first
    assert filtering.filter(pod("new", 4), names("a")) is not first

    tell(cluster, pod("p", 5, on="a", card="0"))
    assert filtering.filter(pod("new", 4), listed).fitting == ()


def test_a_change_that_moves_no_node_and_no_reason_leaves_the_answer() -> None:
    """The bytes of a reply are kept with its answer, and most changes are of no consequence."""
    cluster = told(node("a", 8, 8), node("full", 8), pod("f", 8, on="full", card="0"))
    filtering, listed = Asked.of(cluster).filtering, names("a", "full")
    first = filtering.filter(pod("new", 4), listed)

    tell(cluster, pod("p", 5, on="a", card="0"))
    assert filtering.filter(pod("new", 4), listed) is first

    tell(cluster, pod("q", 5, on="a", card="1"))
    second = filtering.filter(pod("new", 4), listed)
    assert second.fitting == ()
    assert "largest free card has 3 of 4" in second.failed["a"]

    tell(cluster, pod("r", 1, on="a", card="1"))
    third = filtering.filter(pod("new", 4), listed)
    assert third is not second
    assert third.failed["a"] != second.failed["a"]


def test_a_node_that_goes_and_one_that_comes_are_seen_by_a_list_of_both() -> None:
    cluster = told(node("a", 8))
    filtering, listed = Asked.of(cluster).filtering, names("a", "b")
    assert set(filtering.filter(pod("new", 4), listed).unresolvable) == {"b"}

    tell(cluster, node("b", 8))
    cluster.node_changed(Gone(node("a", 8)))

    answer = filtering.filter(pod("new", 4), listed)
    assert answer.fitting == (1,)
    assert set(answer.unresolvable) == {"a"}


def test_an_answer_for_a_pod_with_an_assumption_is_no_answer_for_others() -> None:
    cluster = told(node("a", 8))
    cluster.assumptions.assume(pod("p", 8, on="a", card="0"), (0,), now_seconds=0.0)
    filtering, listed = Asked.of(cluster).filtering, names("a")

    assert filtering.filter(pod("p", 8), listed).fitting == (0,)
    assert filtering.filter(pod("other", 8), listed).fitting == ()
    assert filtering.filter(pod("p", 8), listed).fitting == (0,)


def test_a_name_that_stands_there_twice_is_answered_twice() -> None:
    cluster = told(node("a", 8), node("b", 8))
    asked, listed = Asked.of(cluster), names("a", "b", "a")
    assert asked.filtering.filter(pod("new", 8), listed).fitting == (0, 1, 2)

    tell(cluster, pod("p", 1, on="a", card="0"))

    assert asked.filtering.filter(pod("new", 8), listed).fitting == (1,)


@pytest.mark.parametrize("wish", [{}, {"gpushare.io/models": "Tesla T4"}])
def test_a_card_that_is_freed_is_seen_at_once(wish: dict[str, str]) -> None:
    holder = pod("p", 8, on="a", card="0")
    cluster = told(node("a", 8), holder)
    asked, new = Asked.of(cluster), pod("new", 8, annotations=wish)
    listed = names("a")
    assert asked.filtering.filter(new, listed).fitting == ()

    tell(cluster, replace(holder, phase=holder.phase.SUCCEEDED))

    assert asked.filtering.filter(new, listed).fitting == (0,)


@given(seed=st.integers(0, 1 << 30))
def test_what_is_remembered_is_what_would_be_worked_out_anew(seed: int) -> None:
    draw = Random(seed)  # noqa: S311  # disorder that repeats, not a secret
    listed = names("a", "b", "c", "gone", "d")
    cluster = told()
    asked = Asked.of(cluster)
    asking = [pod("n1", 2), pod("n2", 5), pod("n3", 2, cores=60), pod("n4", 3, annotations=TWO)]
    for _ in range(draw.randint(3, 12)):
        for _ in range(draw.randint(0, 2)):
            tell(cluster, _change(draw))
        if draw.random() < 0.2:
            assumed = pod("n2", 5, on=draw.choice("abcd"), card="0")
            cluster.assumptions.assume(assumed, (0,), now_seconds=0.0)
        for each in draw.sample(asking, 2):
            answer = asked.filtering.filter(each, listed)
            ask = asked.fits.ask_of(each)
            for place, name in enumerate(listed.names):
                room = cluster.room(name, without=each.uid)
                expected = None if room is None else fit(room, ask)
                if expected is None or isinstance(expected, Misfit):
                    assert place not in answer.fitting
                    part = (
                        answer.failed if expected and expected.resolvable else answer.unresolvable
                    )
                    assert name in part
                    assert expected is None or part[name] == expected.reason
                else:
                    assert place in answer.fitting


TWO = {"gpushare.io/gpu-count": "1", "gpushare.io/gpu-index": "1"}


def _change(draw: Random) -> Node | Pod:
    name = draw.choice("abcd")
    if draw.random() < 0.4:
        sick = {uuid(name, 0): {"state": "unhealthy", "reason": "XID 79"}}
        sizes = draw.choice(((4, 4), (6,), ()))
        ready, health = draw.random() < 0.8, draw.choice((None, sick))
        return node(name, *sizes, ready=ready, health=health)
    units, card = draw.randint(1, 4), draw.choice(("0", "1", None))
    return pod(f"p{draw.randint(0, 9)}", units, on=name, card=card, cores=draw.choice((0, 50)))


def test_of_nodes_that_came_and_went_nothing_is_kept() -> None:
    """An autoscaler gives every node another name."""
    cluster = told(node("stays", 4))
    asked = Asked.of(cluster)
    for number in range(50):
        one = node(f"n{number}", 4, 4)
        tell(cluster, one)
        asked.fitting(pod("large", 8), one.name)
        asked.fitting(pod("pinned", 2, annotations=TWO), one.name)
        cluster.node_changed(Gone(one))
    asked.fitting(pod("large", 8), "stays")
    gc.collect()

    rooms = [each for each in gc.get_objects() if isinstance(each, NodeRoom)]
    assert not [each for each in rooms if each.node.name.startswith("n")]
