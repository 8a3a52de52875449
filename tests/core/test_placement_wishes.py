"""Where a container goes whose pod is known: the chosen card, or where all of it has room."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.devices import Card, CardTable
from gpushare_plugin.core.placement import Policy, Proposal, Request, Wish, propose
from tests.core.cards import cards

policies = st.sampled_from(Policy)


def free_of(card: Card, units: int) -> list[str]:
    return card.device_ids()[: min(units, card.units)]


def proposed(
    free: tuple[int, ...], size: int, wish: Wish, policy: Policy = Policy.BINPACK
) -> Proposal:
    """What is proposed for `size` units where the cards have so many free ones."""
    table = CardTable(cards(*(8 for _ in free)))
    available = [
        each for card, units in zip(table.cards, free, strict=True) for each in free_of(card, units)
    ]
    request = Request(available_ids=available, must_include_ids=(), size=size)
    return propose(request, table, policy, wish)


def indices(proposal: Proposal) -> list[int]:
    return [card.index for card in proposal.cards]


HELD = frozenset({cards(8, 8, 8)[1].uuid})


@pytest.mark.parametrize(
    ("free", "wish", "card"),
    [
        pytest.param((4, 4, 4), Wish(chosen=(2,)), 2, id="the chosen one"),
        pytest.param((2, 4, 8), Wish(chosen=(2,)), 2, id="the chosen one, whatever the policy"),
        pytest.param((2, 4, 1), Wish(chosen=(2,)), 0, id="full: another one"),
        pytest.param((2, 4, 8), Wish(chosen=(9,)), 0, id="no such card"),
        pytest.param((2, 4, 8), Wish(held=HELD), 1, id="where the pod is already"),
        pytest.param((2, 4, 8), Wish(chosen=(2,), held=HELD), 2, id="chosen before held"),
        pytest.param((2, 1, 8), Wish(held=HELD, pod_units=3), 2, id="held is full: room for all"),
        pytest.param((2, 4, 8), Wish(pod_units=4), 1, id="room for the whole pod"),
        pytest.param((2, 4, 8), Wish(pod_units=9), 0, id="nowhere room for all of it"),
    ],
)
def test_preferences_are_asked_in_their_order(free: tuple[int, ...], wish: Wish, card: int) -> None:
    assert indices(proposed(free, 2, wish)) == [card]


free_units = st.tuples(*(st.integers(0, 4),) * 3)
wishes = st.builds(
    Wish,
    chosen=st.sampled_from([(), (0,), (2,), (1, 2), (7,)]),
    held=st.sampled_from([frozenset(), HELD]),
    pod_units=st.integers(0, 5),
)


@given(free_units, st.integers(1, 4), wishes, policies)
def test_a_container_goes_whole_to_one_card_if_any_has_room_and_to_the_chosen_one_if_that_has(
    free: tuple[int, ...], size: int, wish: Wish, policy: Policy
) -> None:
    proposal = proposed(free, size, wish, policy)
    fitting = [index for index, units in enumerate(free) if units >= size]

    assert len(proposal.device_ids) == min(size, sum(free))
    assert bool(proposal.cards) is bool(fitting)
    if fitting:
        [card] = indices(proposal)
        assert card in fitting
        wanted = [index for index in wish.chosen if index in fitting]
        assert not wanted or card in wanted


@given(free_units, st.integers(1, 8), st.integers(2, 3), wishes, policies)
def test_units_are_spread_evenly_over_so_many_cards_or_go_whole_to_one(
    free: tuple[int, ...], size: int, count: int, wish: Wish, policy: Policy
) -> None:
    spread = Wish(chosen=wish.chosen, held=wish.held, pod_units=wish.pod_units, card_count=count)
    proposal = proposed(free, size, spread, policy)
    each, rest = divmod(size, count)
    fitting = [index for index, units in enumerate(free) if units >= each]

    if rest or len(fitting) < count:
        alone = proposed(free, size, replace(spread, card_count=1), policy)
        assert proposal == alone
    else:
        assert len(proposal.cards) == count
        by_tag = [device_id.partition("-")[0] for device_id in proposal.device_ids]
        assert [by_tag.count(card.tag) for card in proposal.cards] == [each] * count


@pytest.mark.parametrize("policy", list(Policy))
def test_the_first_container_of_several_cards_leaves_room_for_the_others(policy: Policy) -> None:
    both = Wish(card_count=2, pod_units=10)

    for free in product((2, 3, 5, 8), repeat=3):
        if sum(units >= 5 for units in free) >= 2:
            assert all(free[index] >= 5 for index in indices(proposed(free, 4, both, policy)))


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    ("size", "index"),
    [pytest.param(2, 0, id="what is left of it"), pytest.param(3, 1, id="more than is left")],
)
def test_units_that_others_use_are_not_counted_as_free(
    policy: Policy, size: int, index: int
) -> None:
    table = CardTable(cards(5, 5))
    first, _ = table.cards
    request = Request(
        available_ids=[each for card in table.cards for each in card.device_ids()],
        must_include_ids=(),
        size=size,
    )

    found = propose(request, table, policy, Wish(chosen=(0,)), withheld={first.uuid: 3})

    assert [card.index for card in found.cards] == [index]


def test_where_no_card_has_so_many_left_the_chosen_ones_own_units_go_first() -> None:
    table = CardTable(cards(3, 5))
    request = Request(
        available_ids=[each for card in table.cards for each in card.device_ids()],
        must_include_ids=(),
        size=6,
    )

    found = propose(request, table, Policy.BINPACK, Wish(chosen=(0,)))

    assert found.cards == ()
    assert {*table.cards[0].device_ids()} < {*found.device_ids}
