"""Whether a pod fits on a node, on which cards, and if not, why."""

from itertools import combinations

import pytest
from hypothesis import given

from gpushare_plugin.core.asks import LONGEST_MODELS, Ask
from gpushare_plugin.core.fitting import Misfit, fit, preference
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.room import CardRoom, NodeRoom, room_of
from gpushare_plugin.core.seats import Seats
from gpushare_plugin.core.shared_node import SharedNode
from tests.core.nodes import ask_for, asks, node_of, nodes, room_with, rooms


def cards_of(found: tuple[CardRoom, ...] | Misfit) -> tuple[int, ...]:
    assert not isinstance(found, Misfit), found.reason
    return tuple(each.card.index for each in found)


def chosen(room: NodeRoom, ask: Ask) -> tuple[int, ...]:
    return cards_of(fit(room, ask))


def misfit(room: NodeRoom, ask: Ask) -> Misfit:
    found = fit(room, ask)
    assert isinstance(found, Misfit)
    return found


def test_binpack_takes_the_fullest_card_that_has_room_and_spread_the_emptiest() -> None:
    room = room_with(node_of(8, 8, 8, 8), 6, 2, 4, 2)

    assert chosen(room, ask_for(3)) == (2,)
    assert chosen(room, ask_for(3, policy=Policy.SPREAD)) == (1,)


def test_the_originals_own_row_of_pods_goes_to_the_same_cards() -> None:
    node, row = node_of(23, 23), []
    held: list[Seats] = []
    for units in (4, 4, 16, 3):
        (card,) = chosen(room_of(node, held), ask_for(units))
        held.append(Seats(units={card: units}))
        row.append(card)

    assert row == [0, 0, 1, 1]


def test_b79_pods_go_on_to_the_next_card_until_no_card_has_room_whatever_is_free_in_all() -> None:
    node, row = node_of(23, 23, 23, 23), []
    held: list[Seats] = []
    for _ in range(8):
        (card,) = chosen(room_of(node, held), ask_for(10))
        held.append(Seats(units={card: 10}))
        row.append(card)

    assert row == [0, 0, 1, 1, 2, 2, 3, 3]
    assert misfit(room_of(node, held), ask_for(10)) == Misfit(
        reason="gpu-a: largest free card has 3 of 10 GiB asked; 12 GiB free in all", resolvable=True
    )


@pytest.mark.parametrize(
    ("unit_mib", "reason"),
    [
        (1024, "gpu-a: 10000000000 GiB asked of one card, and its largest has 23"),
        (256, "gpu-a: 10000000000 units of 256MiB asked of one card, and its largest has 23"),
        (None, "gpu-a: 10000000000 units asked of one card, and its largest has 23"),
    ],
)
def test_b81_more_than_any_card_has_is_refused_in_the_unit_that_is_meant(
    unit_mib: int | None, reason: str
) -> None:
    room = room_with(node_of(16, 23, unit_mib=unit_mib))

    assert misfit(room, ask_for(10**10)) == Misfit(reason=reason, resolvable=False)


SICK = node_of(8, 16, unhealthy=[1])
MIXED = node_of(8, 16, models=["Tesla T4", "NVIDIA A100-SXM4-80GB"])


@pytest.mark.parametrize(
    ("room", "ask", "reason"),
    [
        pytest.param(
            room_with(node_of(8, 8), 5, 0),
            ask_for(8, gpu_index="0"),
            "card 0, which the pod is pinned to (gpushare.io/gpu-index), has 3 of 8 GiB asked; 11"
            " GiB free in all",
            id="pinned-card-is-full",
        ),
        pytest.param(
            room_with(node_of(8, 8), 9, 5),
            ask_for(8),
            "largest free card has 3 of 8 GiB asked; 3 GiB free in all",
            id="over-committed",
        ),
        pytest.param(
            room_with(node_of(8), 9),
            ask_for(8),
            "largest free card has 0 of 8 GiB asked; 0 GiB free in all",
            id="nothing-left",
        ),
        pytest.param(
            room_with(node_of(8, 8), unknown=4),
            ask_for(6),
            "largest free card has 4 of 6 GiB asked; 12 GiB free in all; 4 GiB are held on a card"
            " that is not known, and so count on each",
            id="unknown-card",
        ),
        pytest.param(
            room_with(SICK, 1, 6),
            ask_for(8),
            "largest free card has 7 of 8 GiB asked; 7 GiB free in all; unhealthy: card 1",
            id="b85-unhealthy-card",
        ),
        pytest.param(
            room_with(node_of(8, 8), 1, 0, cores=(0, 80)),
            ask_for(8, cores=30),
            "largest free card has room for 8 GiB, and beside that at most 20 of the 30 compute"
            " asked (a card has 100); 15 GiB free in all",
            id="compute-is-short",
        ),
        pytest.param(
            room_with(node_of(8, 8, 8), 5, 4),
            ask_for(16, gpu_count="2"),
            "1 of 2 cards asked have 8 GiB free; 15 GiB free in all",
            id="several-cards",
        ),
        pytest.param(
            room_with(node_of(8, 8), cores=(50, 90)),
            ask_for(8, cores=100, gpu_count="2"),
            "1 of 2 cards asked have 4 GiB and 50 compute free; 16 GiB free in all",
            id="several-cards-compute",
        ),
        pytest.param(
            room_with(MIXED, 5, 0),
            ask_for(4, models="T4"),
            "largest free card of a model that the pod takes has 3 of 4 GiB asked; 19 GiB free in"
            " all",
            id="cards-of-the-model-are-full",
        ),
    ],
)
def test_what_is_full_now_is_told_in_the_users_words_and_may_be_freed(
    room: NodeRoom, ask: Ask, reason: str
) -> None:
    assert misfit(room, ask) == Misfit(reason=f"gpu-a: {reason}", resolvable=True)


@pytest.mark.parametrize(
    ("room", "ask", "reason"),
    [
        pytest.param(
            room_with(node_of(8, problem="it is not ready")),
            ask_for(1),
            "it is not ready",
            id="b85-node-problem",
        ),
        pytest.param(
            room_with(SICK, 1, 6),
            ask_for(9),
            "9 GiB asked of one card, and its largest has 8; unhealthy: card 1",
            id="b85-the-only-large-card-is-unhealthy",
        ),
        pytest.param(
            room_with(node_of(8, 8, unhealthy=[0, 1])),
            ask_for(9),
            "it has no healthy card; unhealthy: cards 0, 1",
            id="b85-all-unhealthy",
        ),
        pytest.param(
            room_with(node_of(8)),
            ask_for(4, gpu_count="2"),
            "2 cards asked, and it has 1",
            id="fewer-cards",
        ),
        pytest.param(
            room_with(node_of(8, 16, 16, unhealthy=[2])),
            ask_for(24, gpu_count="2"),
            "1 of 2 cards asked could hold 12 GiB each; unhealthy: card 2",
            id="too-few-large-cards",
        ),
        pytest.param(
            room_with(MIXED),
            ask_for(4, models="H100,L4", avoid_models="T4"),
            "its cards are Tesla T4, NVIDIA A100-SXM4-80GB; the pod asks for gpushare.io/models:"
            " H100, L4; gpushare.io/avoid-models: T4",
            id="other-models",
        ),
        pytest.param(
            room_with(node_of(8, models=[""])),
            ask_for(4, models="T4"),
            "its cards are of unknown model; the pod asks for gpushare.io/models: T4",
            id="unknown-model",
        ),
        pytest.param(
            room_with(MIXED),
            ask_for(9, models="T4"),
            "9 GiB asked of one card, and its largest has 8 of a model that the pod takes",
            id="cards-of-the-model-are-small",
        ),
        pytest.param(
            room_with(MIXED),
            ask_for(4, gpu_index="2"),
            "the pod is pinned to card 2 (gpushare.io/gpu-index), and its cards are 0, 1",
            id="pinned-to-no-card",
        ),
        pytest.param(
            room_with(MIXED),
            ask_for(4, gpu_index="0", models="A100"),
            "the pod is pinned to card 0 (gpushare.io/gpu-index), which is Tesla T4; the pod asks"
            " for gpushare.io/models: A100",
            id="pinned-to-another-model",
        ),
        pytest.param(
            room_with(MIXED),
            ask_for(9, gpu_index="0"),
            "the pod is pinned to card 0 (gpushare.io/gpu-index), which has 8 of 9 GiB asked",
            id="pinned-to-a-small-card",
        ),
        pytest.param(
            room_with(SICK),
            ask_for(4, gpu_index="1"),
            "the pod is pinned to card 1 (gpushare.io/gpu-index), which is unhealthy",
            id="b85-pinned-to-an-unhealthy-card",
        ),
    ],
)
def test_what_no_eviction_could_help_is_told_so_that_nobody_is_evicted(
    room: NodeRoom, ask: Ask, reason: str
) -> None:
    assert misfit(room, ask) == Misfit(reason=f"gpu-a: {reason}", resolvable=False)


def test_many_models_are_shortened() -> None:
    node = node_of(*[8] * 6, models=[f"M{n}" for n in range(6)])

    assert "M0, M1, M2, M3 and 2 more" in misfit(room_with(node), ask_for(1, models="T4")).reason


def test_a_long_name_of_a_model_is_cut() -> None:
    """It stands in the reason of each of 5,000 nodes."""
    wish = ask_for(1, models="T" * LONGEST_MODELS)

    assert len(misfit(room_with(node_of(8, models=["M"])), wish).reason) < 200


@pytest.mark.parametrize("room", [room_with(node_of()), room_with(node_of(8, problem="gone"), 8)])
def test_a_pod_that_asks_for_no_unit_fits_everywhere_on_no_card(room: NodeRoom) -> None:
    assert fit(room, ask_for(0)) == ()


def test_overcommitted_cores_keep_no_pod_away_that_asks_for_none() -> None:
    room = room_with(node_of(8), cores=(120,))

    assert chosen(room, ask_for(4)) == (0,)


MESH = {(0, 1): 2, (2, 3): 4, (1, 2): 1}


@pytest.mark.parametrize(
    ("node", "used", "ask", "cards"),
    [
        pytest.param(
            node_of(8, 8, 8, 8, links=MESH),
            (6, 6, 0, 0),
            ask_for(4, gpu_count="2"),
            (2, 3),
            id="most-lanes-before-policy",
        ),
        pytest.param(
            node_of(8, 8, 8, 8, links=MESH),
            (0, 0, 8, 0),
            ask_for(4, gpu_count="2"),
            (0, 1),
            id="best-linked-that-have-room",
        ),
        pytest.param(
            node_of(8, 8, 8, 8, links=MESH),
            (),
            ask_for(4, gpu_count="2", gpu_index="1"),
            (0, 1),
            id="pinned-and-its-nearest",
        ),
        pytest.param(
            node_of(8, 8, 8, 8, numa=[0, 1, 0, 1]),
            (3, 2, 3, 0),
            ask_for(4, gpu_count="2"),
            (0, 2),
            id="same-numa-node",
        ),
        pytest.param(
            node_of(8, 8, 8, numa=[None, None, None]),
            (0, 1, 2),
            ask_for(4, gpu_count="2"),
            (1, 2),
            id="unknown-numa-then-policy",
        ),
        pytest.param(
            node_of(8, 8, 8),
            (0, 1, 2),
            ask_for(4, gpu_count="2", policy=Policy.SPREAD),
            (0, 1),
            id="spread",
        ),
        pytest.param(node_of(8, 8, 8), (), ask_for(4, gpu_count="2"), (0, 1), id="lowest-index"),
        pytest.param(node_of(4, 4, 4), (), ask_for(12, gpu_count="3"), (0, 1, 2), id="all"),
    ],
)
def test_several_cards_are_the_best_linked_ones(
    node: SharedNode, used: tuple[int, ...], ask: Ask, cards: tuple[int, ...]
) -> None:
    assert chosen(room_with(node, *used), ask) == cards


@given(room=rooms(), ask=asks())
def test_no_card_of_a_fit_is_unhealthy_or_short_or_of_another_model(
    room: NodeRoom, ask: Ask
) -> None:
    found = fit(room, ask)

    if not isinstance(found, Misfit):
        assert len({each.card.index for each in found}) == len(found) == ask.card_count
        assert all(each.card.healthy and ask.takes_model(each.card.model) for each in found)
        assert all(each.free_units >= ask.units_per_card for each in found)
        assert all(
            not ask.cores_per_card or each.free_cores >= ask.cores_per_card for each in found
        )
        assert ask.pinned is None or ask.pinned in cards_of(found)


@given(room=rooms(), ask=asks())
def test_a_misfit_is_no_fit_missed(room: NodeRoom, ask: Ask) -> None:
    good = [
        each
        for each in room.cards
        if each.card.healthy
        and ask.takes_model(each.card.model)
        and each.has(ask.units_per_card, ask.cores_per_card)
    ]
    sets = [{each.card.index for each in cards} for cards in combinations(good, ask.card_count)]
    possible = any(ask.pinned is None or ask.pinned in indices for indices in sets)

    assert isinstance(fit(room, ask), Misfit) is not possible


@given(room=rooms(), ask=asks())
def test_the_column_of_the_largest_free_card_decides_for_plain_asks_and_excludes_for_all(
    room: NodeRoom, ask: Ask
) -> None:
    fits = not isinstance(fit(room, ask), Misfit)
    by_column = ask.units_per_card <= room.largest_free_units

    assert fits is by_column if ask.is_plain else by_column or not fits


@given(node=nodes(), ask=asks(), room=rooms())
def test_a_misfit_is_resolvable_exactly_if_the_empty_node_would_fit(
    node: SharedNode, ask: Ask, room: NodeRoom
) -> None:
    found, empty = fit(room, ask), fit(room_of(room.node, []), ask)

    if isinstance(found, Misfit):
        assert found.resolvable is not isinstance(empty, Misfit)
        assert found.reason.startswith("gpu-a: ")


@given(room=rooms(), ask=asks())
def test_the_same_room_and_ask_give_the_same_cards_whatever_order_the_links_come_in(
    room: NodeRoom, ask: Ask
) -> None:
    turned = SharedNode(
        name=room.node.name,
        cards=room.node.cards,
        links=dict(reversed(tuple(room.node.links.items()))),
        unit_mib=1024,
    )
    again = NodeRoom(
        node=turned,
        cards=room.cards,
        unknown_units=room.unknown_units,
        used_units=room.used_units,
        used_cores=room.used_cores,
        total_units=room.total_units,
    )

    assert fit(again, ask) == fit(room, ask)


@given(room=rooms(least_cards=2))
def test_two_cards_are_the_best_pair_of_all_by_the_key_that_ranks_nodes_too(room: NodeRoom) -> None:
    ask = ask_for(4, gpu_count="2")
    found = fit(room, ask)

    if not isinstance(found, Misfit):
        good = [each for each in room.cards if each.card.healthy and each.free_units >= 2]
        pairs = combinations(good, 2)
        assert preference(room, found, ask) == min(preference(room, pair, ask) for pair in pairs)
