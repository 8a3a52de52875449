"""What is free on a node, made from scratch of the node and of where its pods sit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.pods import Phase, counts
from gpushare_plugin.core.room import room_of
from gpushare_plugin.core.seats import Seats, seats_of
from gpushare_plugin.core.shared_node import SharedNode
from tests.core.nodes import IDX, MAIN, node_of, nodes, pod_of, room_with, seats


def test_a_cards_room_is_what_its_pods_leave() -> None:
    room = room_of(
        node_of(15, 31),
        [Seats(units={0: 4}, cores={0: 30}), Seats(units={0: 1, 1: 6}), Seats(units={1: 2})],
    )

    assert [(each.free_units, each.free_cores) for each in room.cards] == [(10, 70), (23, 100)]
    assert (room.used_units, room.used_cores, room.total_units) == (13, 30, 46)
    assert (room.largest_free_units, room.free_units) == (23, 33)
    assert room.used_share == 13 / 46


def test_units_of_an_unknown_card_are_taken_off_every_card_and_used_once() -> None:
    room = room_of(node_of(15, 31), [Seats(unknown_units=5, unknown_cores=20)])

    assert [(each.free_units, each.free_cores) for each in room.cards] == [(10, 80), (26, 80)]
    assert (room.used_units, room.unknown_units, room.free_units) == (5, 5, 41)


def test_seats_on_a_card_that_the_node_has_no_more_are_of_an_unknown_card() -> None:
    room = room_of(node_of(8), [Seats(units={1: 3}, cores={1: 10})])

    assert (room.cards[0].free_units, room.cards[0].free_cores) == (5, 90)
    assert room.unknown_units == 3


def test_an_overcommitted_card_has_less_than_nothing_and_is_never_free() -> None:
    room = room_with(node_of(23, 8), 30)

    assert room.cards[0].free_units == -7
    assert room.free_units == 8
    assert not room.cards[0].has(1, 0)


def test_b85_units_used_on_an_unhealthy_card_count_and_its_free_ones_do_not() -> None:
    room = room_with(node_of(8, 8, unhealthy=[1]), 6, 1)

    assert (room.largest_free_units, room.free_units, room.used_units) == (2, 2, 7)


def test_where_nothing_new_may_go_nothing_is_free() -> None:
    assert room_of(node_of(8, problem="it is not ready"), []).largest_free_units == 0


def test_a_node_without_cards_has_no_room_and_no_share() -> None:
    room = room_of(node_of(), [Seats(units={0: 2})])

    assert (room.largest_free_units, room.free_units, room.used_share) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("phase", "terminating", "free"),
    [
        pytest.param(Phase.SUCCEEDED, False, 8, id="completed"),
        pytest.param(Phase.FAILED, False, 8, id="rejected-or-evicted"),
        pytest.param(Phase.RUNNING, True, 2, id="terminating"),
        pytest.param(Phase.RUNNING, False, 2, id="crash-loop"),
        pytest.param(Phase.PENDING, False, 2, id="pending-its-containers-ended"),
    ],
)
def test_b73_a_pod_is_missed_from_its_card_until_it_has_ended(
    phase: Phase, terminating: bool, free: int
) -> None:
    node = node_of(8, 4)
    pod = pod_of((MAIN, 6), annotations={IDX: "0"}, phase=phase, terminating=terminating)

    room = room_of(node, [seats_of(each, node, ALIYUN) for each in [pod] if counts(each)])

    assert room.largest_free_units == max(free, 4)
    assert room.cards[0].free_units == free


@given(node=nodes(), held=st.lists(seats(), max_size=4))
def test_room_is_never_more_than_the_units_and_nothing_that_is_held_is_lost(
    node: SharedNode, held: list[Seats]
) -> None:
    room = room_of(node, held)

    assert all(each.free_units <= each.card.units for each in room.cards)
    assert all(each.free_cores <= 100 for each in room.cards)
    assert room.largest_free_units <= max(card.units for card in node.cards)
    assert 0 <= room.free_units <= sum(card.units for card in node.cards)
    assert room.used_units == sum(sum(each.units.values()) + each.unknown_units for each in held)


@given(node=nodes(), held=st.lists(seats(), max_size=3), unknown=st.integers(0, 4))
def test_units_of_an_unknown_card_make_no_card_look_freer(
    node: SharedNode, held: list[Seats], unknown: int
) -> None:
    before, after = (room_of(node, [*held, *more]) for more in ([], [Seats(unknown_units=unknown)]))

    for one, other in zip(before.cards, after.cards, strict=True):
        assert other.free_units == one.free_units - unknown
    assert after.largest_free_units <= before.largest_free_units


@given(
    node=nodes(),
    held=st.permutations([Seats(units={0: 1}), Seats(units={1: 2}), Seats(unknown_units=1)]),
)
def test_the_order_of_the_pods_does_not_matter(node: SharedNode, held: list[Seats]) -> None:
    assert room_of(node, held) == room_of(node, held[::-1])
