"""The card for a container, out of what the kubelet offers."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.placement import CardOffer, Policy, Request, choose, propose
from tests.core.cards import card, cards

TABLE = CardTable(cards(3, 3, 2))
OURS = [device_id for each in TABLE.cards for device_id in each.device_ids()]
FOREIGN = ["GPU-11111111-aaaa-_-0", "GPU-11111111-aaaa-_-1"]
UNKNOWN = ["deadbeef-0", "00000000-3", "what is this"]

policies = st.sampled_from(Policy)
sizes = st.integers(0, 4)
offers_of = st.lists(st.integers(0, 4), max_size=4)
available = st.lists(st.sampled_from([*OURS, *FOREIGN, *UNKNOWN]), unique=True)


def offers(free: list[int]) -> list[CardOffer]:
    return [
        CardOffer(card=card(index, 4), free_ids=tuple(card(index, 4).device_ids()[:units]))
        for index, units in enumerate(free)
    ]


def card_of(device_id: str) -> int:
    return TABLE.of_device(device_id).index


@given(free=offers_of, units=sizes, policy=policies)
def test_the_chosen_card_can_hold_the_request_and_none_is_chosen_only_where_none_can(
    free: list[int], units: int, policy: Policy
) -> None:
    chosen = choose(offers(free), units=units, policy=policy)

    assert (chosen is None) == all(each < units for each in free)
    assert chosen is None or chosen.free_units >= units


@given(free=offers_of, units=sizes)
def test_binpack_leaves_the_fewest_units_and_spread_the_most(free: list[int], units: int) -> None:
    left = {index: each - units for index, each in enumerate(free) if each >= units}

    packed = choose(offers(free), units=units, policy=Policy.BINPACK)
    spread = choose(offers(free), units=units, policy=Policy.SPREAD)

    assert (packed and packed.card.index) == min(left, key=lambda i: (left[i], i), default=None)
    assert (spread and spread.card.index) == min(left, key=lambda i: (-left[i], i), default=None)


@given(free=offers_of, units=sizes, policy=policies, data=st.data())
def test_equal_offers_in_any_order_give_the_same_card(
    free: list[int], units: int, policy: Policy, data: st.DataObject
) -> None:
    in_order = offers(free)
    shuffled = data.draw(st.permutations(in_order))

    assert choose(shuffled, units=units, policy=policy) == choose(
        in_order, units=units, policy=policy
    )


@given(ids=available, size=sizes, policy=policies, data=st.data())
def test_a_proposal_names_only_what_was_offered_and_nothing_twice(
    ids: list[str], size: int, policy: Policy, data: st.DataObject
) -> None:
    must = ids[: data.draw(st.integers(0, min(size, len(ids))))]
    rest = ids if data.draw(st.booleans()) else ids[len(must) :]

    proposal = propose(Request(available_ids=rest, must_include_ids=must, size=size), TABLE, policy)

    named = proposal.device_ids
    assert set(must) <= set(named) <= set(ids)
    assert len(set(named)) == len(named) <= size
    assert set(named) - set(must) <= set(OURS)


@given(ids=available, size=sizes, policy=policies)
def test_as_many_are_proposed_as_were_asked_for_wherever_there_are_so_many(
    ids: list[str], size: int, policy: Policy
) -> None:
    ours = [each for each in ids if each in OURS]

    proposal = propose(Request(available_ids=ids, must_include_ids=[], size=size), TABLE, policy)

    assert len(proposal.device_ids) == min(size, len(ours))


@given(ids=st.lists(st.sampled_from(OURS), unique=True), size=st.integers(1, 4), policy=policies)
def test_a_container_goes_whole_to_one_card_wherever_one_can_hold_it(
    ids: list[str], size: int, policy: Policy
) -> None:
    proposal = propose(Request(available_ids=ids, must_include_ids=[], size=size), TABLE, policy)

    possible = any(len({card_of(each) for each in group}) == 1 for group in combinations(ids, size))
    assert (proposal.card is not None) == possible
    if proposal.card is not None:
        assert {card_of(each) for each in proposal.device_ids} == {proposal.card.index}


@pytest.mark.parametrize("policy", Policy)
def test_devices_held_over_from_init_containers_tie_the_container_to_their_card(
    policy: Policy,
) -> None:
    held = ["00000001-2"]

    proposal = propose(Request(available_ids=OURS, must_include_ids=held, size=3), TABLE, policy)

    assert proposal.card == TABLE.cards[1]
    assert proposal.device_ids == ("00000001-2", "00000001-0", "00000001-1")


def test_held_over_devices_count_though_they_are_not_offered_once_more() -> None:
    request = Request(
        available_ids=["00000001-0", "00000001-1"], must_include_ids=["00000001-2"], size=3
    )

    assert propose(request, TABLE, Policy.BINPACK).card == TABLE.cards[1]


def test_a_card_whose_held_over_units_leave_too_few_gets_no_container() -> None:
    request = Request(
        available_ids=["00000000-0", "00000000-1", "00000000-2"],
        must_include_ids=["00000001-0"],
        size=2,
    )

    proposal = propose(request, TABLE, Policy.BINPACK)

    assert proposal.card is None
    assert proposal.device_ids == ("00000001-0", "00000000-0")


def test_held_over_units_of_two_cards_are_kept_though_no_card_can_hold_them() -> None:
    held = ["00000000-0", "00000001-0"]

    proposal = propose(
        Request(available_ids=OURS, must_include_ids=held, size=2), TABLE, Policy.SPREAD
    )

    assert (proposal.device_ids, proposal.card) == (tuple(held), None)


def test_where_no_card_can_hold_the_request_the_fullest_offer_comes_first() -> None:
    ids = ["00000000-0", "00000001-0", "00000001-1", "00000002-0"]

    proposal = propose(
        Request(available_ids=ids, must_include_ids=[], size=4), TABLE, Policy.BINPACK
    )

    assert proposal.card is None
    assert proposal.device_ids == ("00000001-0", "00000001-1", "00000000-0", "00000002-0")


def test_units_are_given_in_the_order_of_their_numbers() -> None:
    table = CardTable(cards(12))
    shuffled = [f"00000000-{ordinal}" for ordinal in (10, 2, 11, 0, 1)]

    proposal = propose(
        Request(available_ids=shuffled, must_include_ids=[], size=4), table, Policy.BINPACK
    )

    assert proposal.device_ids == ("00000000-0", "00000000-1", "00000000-2", "00000000-10")


def test_a_node_of_foreign_ids_alone_gets_an_answer_without_devices() -> None:
    request = Request(available_ids=FOREIGN, must_include_ids=[], size=1)

    proposal = propose(request, TABLE, Policy.BINPACK)

    assert (proposal.device_ids, proposal.card) == ((), None)
