"""Whom to evict so that a pod really fits: victims free enough on one card, and none in vain."""

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given as holds_for
from hypothesis import strategies as st

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.fitting import Misfit, fit
from gpushare_plugin.core.preemption import Victim, victims_on
from gpushare_plugin.core.room import room_of
from gpushare_plugin.core.seats import Seats
from gpushare_plugin.core.shared_node import SharedNode
from tests.core.nodes import ask_for, asks, node_of, nodes, seats

PRIORITY = 100


Pods = Mapping[str, tuple[int, Seats]]
"""By UID: priority and seats."""


def on(card: int, units: int, *, priority: int = 0, cores: int = 0) -> tuple[int, Seats]:
    return priority, Seats(units={card: units}, cores={card: cores} if cores else {})


def victims(
    node: SharedNode,
    ask: Ask,
    given: Collection[str],
    pods: Pods,
) -> set[str] | None:
    """Who is to go for a pod of priority 100, of these pods by UID."""
    found = [
        Victim(uid=uid, priority=priority, seats=held) for uid, (priority, held) in pods.items()
    ]
    room = room_of(node, [each.seats for each in found])
    uids = victims_on(room, ask, priority=PRIORITY, pods=found, given=frozenset(given))
    return None if uids is None else set(uids)


TWO = node_of(8, 8)
PIECES = {"a0": on(0, 4), "a1": on(0, 4), "b0": on(1, 4), "b1": on(1, 4)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"a0", "a1"}, {"a0", "a1"}, id="given-ones-free-one-card"),
        pytest.param({"a0", "b0"}, {"a0", "a1"}, id="given-ones-free-bits-of-two-cards"),
        pytest.param({"b0", "b1", "a0"}, {"b0", "b1"}, id="needless-one-is-trimmed"),
        pytest.param({"a0", "a1", "b0", "b1"}, {"a0", "a1"}, id="a-whole-card-is-trimmed"),
        pytest.param({"a0", "b0", "cpu"}, {"a0", "a1", "cpu"}, id="one-that-holds-no-units-stays"),
        pytest.param(set[str](), {"a0", "a1"}, id="none-given"),
    ],
)
def test_b78_only_victims_that_free_room_on_one_card_are_kept(
    given: set[str], expected: set[str]
) -> None:
    assert victims(TWO, ask_for(8), given, PIECES) == expected


@pytest.mark.parametrize(
    ("node", "ask", "pods"),
    [
        pytest.param(TWO, ask_for(9), PIECES, id="larger-than-any-card"),
        pytest.param(
            TWO,
            ask_for(8),
            {"a": on(0, 1, priority=PRIORITY), "b": on(1, 1, priority=200)},
            id="a-piece-of-each-card-is-as-important",
        ),
        pytest.param(
            node_of(8, 8, unhealthy=[1]),
            ask_for(8),
            {"a": on(0, 1, priority=200), "b": on(1, 8)},
            id="b85-the-other-card-is-unhealthy",
        ),
        pytest.param(node_of(8, problem="it is not ready"), ask_for(8), {"a": on(0, 8)}, id="node"),
        pytest.param(
            node_of(8),
            ask_for(8),
            {"a": (200, Seats(unknown_units=1)), "b": on(0, 7)},
            id="unknown-card",
        ),
        pytest.param(
            node_of(8),
            ask_for(4, cores=50),
            {"a": on(0, 4, priority=200, cores=60), "b": on(0, 4)},
            id="compute",
        ),
        pytest.param(
            TWO,
            ask_for(8, gpu_index="0"),
            {"a": on(0, 8, priority=200), "b": on(1, 8)},
            id="pinned-card",
        ),
        pytest.param(
            TWO,
            ask_for(16, gpu_count="2"),
            {"a": on(0, 8, priority=200), "b": on(1, 8)},
            id="two-cards",
        ),
    ],
)
def test_b78_where_no_eviction_helps_nobody_is_evicted(
    node: SharedNode, ask: Ask, pods: Pods
) -> None:
    assert victims(node, ask, set(pods), pods) is None


@pytest.mark.parametrize(
    ("pods", "given", "expected"),
    [
        pytest.param(
            {"a": on(0, 8, priority=1), "b": on(1, 8)},
            {"a"},
            {"a"},
            id="given-before-lower-priority",
        ),
        pytest.param(
            {"a": on(0, 8, priority=9), "b": on(1, 8, priority=3)},
            set(),
            {"b"},
            id="lowest-top-priority",
        ),
        pytest.param({"a0": on(0, 4), "a1": on(0, 4), "b": on(1, 8)}, set(), {"b"}, id="fewest"),
        pytest.param(
            {"a0": on(0, 2, priority=5), "a1": on(0, 6, priority=2), "b": on(1, 8, priority=200)},
            set(),
            {"a0", "a1"},
            id="all-of-a-card",
        ),
        pytest.param({"a": on(0, 8), "b": on(1, 8)}, set(), {"a"}, id="lowest-index"),
        pytest.param(
            {"a": on(0, 8, priority=-5), "b": on(1, 8, priority=-10)}, set(), {"b"}, id="below-0"
        ),
    ],
)
def test_the_card_is_the_one_with_the_fewest_foreign_then_least_important_then_fewest_victims(
    pods: Pods, given: set[str], expected: set[str]
) -> None:
    assert victims(TWO, ask_for(8), given, pods) == expected


@pytest.mark.parametrize(
    ("pods", "given", "expected"),
    [
        pytest.param(
            {"a": on(0, 4, priority=3), "b": on(0, 4, priority=1)},
            set(),
            {"b"},
            id="lowest-priority",
        ),
        pytest.param({"a": on(0, 2), "b": on(0, 6)}, set(), {"b"}, id="largest"),
        pytest.param(
            {"a": on(0, 4, priority=3), "b": on(0, 4, priority=1)}, {"a"}, {"a"}, id="given"
        ),
        pytest.param(
            {"a": on(0, 2, priority=1), "b": on(0, 6, priority=2)},
            set(),
            {"b"},
            id="small-one-is-not-needed-after-all",
        ),
    ],
)
def test_on_the_card_the_least_important_go_and_none_that_is_not_needed(
    pods: Pods, given: set[str], expected: set[str]
) -> None:
    assert victims(node_of(8), ask_for(4), given, pods) == expected


def test_units_of_an_unknown_card_are_freed_on_every_card() -> None:
    pods = {"lost": (0, Seats(unknown_units=3)), "a": on(0, 5)}

    assert victims(node_of(8), ask_for(3), {"lost"}, pods) == {"lost"}


def test_where_the_pod_has_room_without_it_a_given_victim_is_for_something_else_and_stays() -> None:
    pods = {"a": on(0, 2), "b": on(1, 2)}

    assert victims(TWO, ask_for(4), {"b", "cpu"}, pods) == {"b", "cpu"}


def test_taking_nobody_is_better_than_taking_the_least_important() -> None:
    pods = {"a": on(0, 8, priority=-10), "b": on(1, 4, priority=-10)}

    assert victims(TWO, ask_for(4), {"a", "b"}, pods) == {"a", "b"}


def test_a_given_pod_that_turns_out_to_be_as_important_is_not_evicted() -> None:
    pods = {"a": on(0, 2, priority=PRIORITY), "b": on(1, 2)}

    assert victims(TWO, ask_for(4), {"a", "b"}, pods) == {"b"}


def test_kube_scheduler_counts_units_used_on_an_unhealthy_card_so_they_must_go_too() -> None:
    pods = {"a": on(0, 4), "sick": on(1, 6)}

    assert victims(node_of(8, 8, unhealthy=[1]), ask_for(4), {"a", "sick"}, pods) == {"sick"}
    assert victims(node_of(8, 8, unhealthy=[1]), ask_for(8), {"a", "sick"}, pods) == {"a", "sick"}


def test_several_cards_are_freed_together_the_pinned_one_among_them() -> None:
    node, pods = node_of(8, 8, 8), {"a": on(0, 8), "b": on(1, 8, priority=5), "c": on(2, 8)}

    assert victims(node, ask_for(16, gpu_count="2"), set(), pods) == {"a", "c"}
    assert victims(node, ask_for(16, gpu_count="2", gpu_index="1"), set(), pods) == {"a", "b"}


def test_compute_is_freed_as_units_are() -> None:
    pods = {"a": on(0, 1, cores=80), "b": on(0, 1, cores=10)}

    assert victims(node_of(8), ask_for(4, cores=50), set(), pods) == {"a"}


def test_a_pod_that_asks_for_no_unit_leaves_the_given_victims_as_they_are() -> None:
    assert victims(TWO, ask_for(0), {"a0", "cpu"}, PIECES) == {"a0", "cpu"}


def pods_on(node: SharedNode) -> st.SearchStrategy[tuple[SharedNode, Pods]]:
    held = st.tuples(
        st.sampled_from((0, 1, 50, PRIORITY, 200)), seats(cards=max(1, len(node.cards)))
    )
    pods = st.dictionaries(st.sampled_from("abcdefgh"), held, max_size=6)
    return st.tuples(st.just(node), pods)


full_nodes = nodes().flatmap(pods_on)


@holds_for(full=full_nodes, ask=asks(), given=st.sets(st.sampled_from("abcdefxy")))
def test_the_victims_really_free_enough_and_each_known_one_is_of_lower_priority(
    full: tuple[SharedNode, Pods], ask: Ask, given: set[str]
) -> None:
    node, pods = full
    found = victims(node, ask, given, pods)

    if found is not None:
        rest = [held for uid, (_, held) in pods.items() if uid not in found]
        assert not isinstance(fit(room_of(node, rest), ask), Misfit)
        assert all(pods[uid][0] < PRIORITY for uid in found & pods.keys())
        assert found <= given | pods.keys()
        assert given - pods.keys() <= found


def _free_in_all(node: SharedNode, held: Collection[Seats]) -> int:
    room = room_of(node, held)
    return sum(card.units for card in node.cards if card.healthy) - room.used_units


@holds_for(full=full_nodes, ask=asks(), given=st.sets(st.sampled_from("abcdefxy")))
def test_no_victim_that_was_not_given_could_be_spared(
    full: tuple[SharedNode, Pods], ask: Ask, given: set[str]
) -> None:
    node, pods = full
    found = victims(node, ask, given, pods) or set()

    for spared in found - given:
        rest = [held for uid, (_, held) in pods.items() if uid not in found or uid == spared]
        room = room_of(node, rest)
        cores = 100 * sum(card.healthy for card in node.cards) - room.used_cores
        assert (
            isinstance(fit(room, ask), Misfit)
            or _free_in_all(node, rest) < ask.units
            or cores < ask.cores_per_card
        )


@holds_for(full=full_nodes, ask=asks())
def test_where_evicting_all_who_are_less_important_would_do_a_way_is_found(
    full: tuple[SharedNode, Pods], ask: Ask
) -> None:
    node, pods = full
    rest = [held for priority, held in pods.values() if priority >= PRIORITY]
    enough = (
        _free_in_all(node, rest) >= ask.units
        and not ask.cores_per_card
        and not isinstance(fit(room_of(node, rest), ask), Misfit)
    )

    if enough:
        assert victims(node, ask, set(), pods) is not None
