"""Scores for the nodes that a pod fits on: the best node holds the card the policy likes best."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.fitting import Misfit, fit
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.room import CardRoom, NodeRoom
from gpushare_plugin.core.scoring import scores
from tests.core.nodes import ask_for, asks, node_of, room_with, rooms

Fits = Mapping[str, tuple[NodeRoom, tuple[CardRoom, ...]]]


def fits_on(found: Sequence[NodeRoom], ask: Ask) -> Fits:
    fits = {room.node.name: (room, fit(room, ask)) for room in found}
    return {
        name: (room, cards) for name, (room, cards) in fits.items() if not isinstance(cards, Misfit)
    }


def scored(ask: Ask, **used: tuple[int, ...]) -> dict[str, int]:
    """The scores of nodes of two cards of 8, so much of them used."""
    found = [room_with(node_of(8, 8, name=name), *each) for name, each in used.items()]
    return scores(fits_on(found, ask), ask)


PACK, SPREAD = ask_for(2), ask_for(2, policy=Policy.SPREAD)


@pytest.mark.parametrize(
    ("ask", "used", "expected"),
    [
        pytest.param(
            PACK,
            {"a": (0, 0), "b": (6, 0), "c": (3, 0)},
            {"a": 0, "b": 10, "c": 9},
            id="tightest-card",
        ),
        pytest.param(
            SPREAD,
            {"a": (0, 0), "b": (6, 6), "c": (3, 3)},
            {"a": 10, "b": 0, "c": 9},
            id="emptiest-card",
        ),
        pytest.param(
            PACK, {"a": (6, 0), "b": (6, 5)}, {"a": 9, "b": 10}, id="then-the-fuller-node"
        ),
        pytest.param(
            SPREAD, {"a": (0, 6), "b": (0, 0)}, {"a": 9, "b": 10}, id="then-the-emptier-node"
        ),
        pytest.param(
            PACK,
            {"b": (6, 0), "c": (6, 0), "a": (6, 0)},
            {"a": 10, "b": 9, "c": 9},
            id="then-the-name",
        ),
        pytest.param(PACK, {"a": (7, 7)}, {}, id="nothing-fits"),
        pytest.param(PACK, {"a": (0, 0)}, {"a": 10}, id="one"),
    ],
)
def test_the_best_node_has_ten_and_nodes_that_are_alike_have_the_same(
    ask: Ask, used: Mapping[str, tuple[int, ...]], expected: Mapping[str, int]
) -> None:
    assert scored(ask, **used) == expected


def test_for_several_cards_the_better_linked_node_comes_first() -> None:
    ask = ask_for(4, gpu_count="2")
    linked = room_with(node_of(8, 8, name="b", links={(0, 1): 4}))
    fuller = room_with(node_of(8, 8, name="a"), 6, 6)

    assert scores(fits_on([linked, fuller], ask), ask) == {"a": 9, "b": 10}


def test_a_pod_that_asks_for_no_unit_likes_no_node_better() -> None:
    ask = ask_for(0)

    assert scores(fits_on([room_with(node_of(8, name=name)) for name in "ab"], ask), ask) == {
        "a": 0,
        "b": 0,
    }


many_rooms = st.integers(1, 3).flatmap(
    lambda n: st.tuples(*(rooms(name=f"n{i}") for i in range(n)))
)


@given(found=many_rooms, ask=asks())
def test_one_node_alone_has_ten_and_all_others_zero_to_nine(
    found: tuple[NodeRoom, ...], ask: Ask
) -> None:
    fits = fits_on(found, ask)

    given_scores = scores(fits, ask)

    assert given_scores.keys() == fits.keys()
    assert sorted(given_scores.values())[-1:] == ([10] if fits else [])
    assert all(0 <= each <= 9 for each in sorted(given_scores.values())[:-1])
    assert scores(dict(reversed(tuple(fits.items()))), ask) == given_scores


@given(found=many_rooms, policy=st.sampled_from(Policy), units=st.integers(1, 8))
def test_the_best_node_holds_the_card_that_the_policy_would_take_of_all_cards(
    found: tuple[NodeRoom, ...], policy: Policy, units: int
) -> None:
    ask = ask_for(units, policy=policy)
    fits = fits_on(found, ask)
    assume(fits)
    free = [
        each.free_units
        for room in found
        for each in room.cards
        if each.card.healthy and each.free_units >= units
    ]

    given_scores = scores(fits, ask)

    best = max(given_scores, key=given_scores.__getitem__)
    (card,) = fits[best][1]
    assert card.free_units == (min(free) if policy is Policy.BINPACK else max(free))


@given(found=many_rooms, policy=st.sampled_from(Policy), units=st.integers(1, 8))
def test_a_node_with_a_card_that_is_liked_less_never_scores_more(
    found: tuple[NodeRoom, ...], policy: Policy, units: int
) -> None:
    ask = ask_for(units, policy=policy)
    fits = fits_on(found, ask)
    sign = 1 if policy is Policy.BINPACK else -1

    given_scores = scores(fits, ask)

    in_order = sorted(fits, key=given_scores.__getitem__, reverse=True)
    liked = [sign * fits[name][1][0].free_units for name in in_order]
    assert liked == sorted(liked)
