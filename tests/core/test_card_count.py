"""Over how many cards a pod is spread: what can be carried out, and what is told of the rest."""

from collections.abc import Mapping

import pytest

from gpushare_plugin.core.card_count import (
    GPU_COUNT,
    LONGEST_SHOWN,
    MOST_CARDS,
    CardCount,
    CountFault,
    card_count_of,
)
from gpushare_plugin.core.pods import Pod
from tests.core.pods import RESOURCE, pod

JUNK = [
    "",
    "x",
    "-1",
    "1.0",
    "0x1",
    "\N{ARABIC-INDIC DIGIT TWO}",
    "1e3",
    "9" * 5000,
    "2;2",
    "0",
    "65",
]


def wanting(text: str | None, *units: int, **others: tuple[int, ...]) -> Pod:
    annotations: Mapping[str, str] = {} if text is None else {GPU_COUNT: text}
    return pod(*units, annotations=annotations, **others)  # type: ignore[arg-type]  # init, sidecar


def count_of(wish: Pod, node_cards: int = 4) -> CardCount:
    return card_count_of(wish, RESOURCE, node_cards=node_cards)


@pytest.mark.parametrize(
    ("wish", "cards"),
    [
        pytest.param(wanting(None, 5), 1, id="no wish"),
        pytest.param(wanting("1", 5), 1, id="one card"),
        pytest.param(wanting("1", 5, init=(3,)), 1, id="one card and an init container"),
        pytest.param(wanting("2", 4, 6), 2, id="each divides"),
        pytest.param(wanting("2", 4, 0), 2, id="a container without units"),
        pytest.param(wanting("2", 4, init=(0,)), 2, id="an init container without units"),
        pytest.param(wanting("2", 4, sidecar=(2,)), 2, id="a sidecar that divides"),
        pytest.param(wanting("4", 4), 4, id="as many as the node has"),
        pytest.param(wanting("3", 0), 3, id="no units at all"),
    ],
)
def test_a_count_that_can_be_carried_out_is(wish: Pod, cards: int) -> None:
    assert count_of(wish) == CardCount(cards=cards)


@pytest.mark.parametrize(
    ("wish", "fault", "words"),
    [
        pytest.param(
            wanting("5", 10),
            CountFault.TOO_MANY_CARDS,
            ("found 5", "this node shares 4", "at most 4 cards"),
            id="more than the node has",
        ),
        pytest.param(
            wanting("2", 4, 5),
            CountFault.INDIVISIBLE,
            ("found 2", "the 5 units of container c1", "ask for 4 or 6 units"),
            id="does not divide",
        ),
        pytest.param(
            wanting("3", 2),
            CountFault.INDIVISIBLE,
            ("the 2 units of container c0", "ask for 3 units"),
            id="fewer units than cards",
        ),
        pytest.param(
            wanting("2", 4, sidecar=(3,)),
            CountFault.INDIVISIBLE,
            ("the 3 units of container s0",),
            id="a sidecar does not divide",
        ),
        pytest.param(
            wanting("2", 4, init=(2,)),
            CountFault.INIT_CONTAINER,
            ("found 2", "init container i0 asks for 2 units", "take the request off"),
            id="an init container asks",
        ),
    ],
)
def test_a_count_that_cannot_be_carried_out_is_one_card_with_count_units_cards_and_cure(
    wish: Pod, fault: CountFault, words: tuple[str, ...]
) -> None:
    found = count_of(wish)

    assert (found.cards, found.fault) == (1, fault)
    assert f"pod default/a ({RESOURCE}: " in found.message
    assert "cards of this node: 4" in found.message
    assert f"annotation {GPU_COUNT}: found" in found.message
    assert [each for each in words if each not in found.message] == []


@pytest.mark.parametrize("junk", JUNK)
def test_b58_a_count_that_does_not_parse_is_one_card_and_is_shown_cut(junk: str) -> None:
    found = count_of(wanting(junk, 4, 2))

    assert (found.cards, found.fault) == (1, CountFault.UNREADABLE)
    assert f"expected a number of cards from 1 to {MOST_CARDS}" in found.message
    assert f"{RESOURCE}: c0 4, c1 2; cards of this node: 4" in found.message
    assert len(found.message) < LONGEST_SHOWN * 5


def test_units_of_every_asking_container_are_named() -> None:
    found = count_of(wanting("2", 3, 0, init=(1,)))

    assert f"({RESOURCE}: i0 1, c0 3; cards of this node: 4)" in found.message


def test_of_very_many_containers_the_first_few_are_named() -> None:
    """The text stands beside each of 5,000 nodes."""
    message = count_of(wanting("x", *[2] * 3000)).message

    assert "and 2996 more" in message
    assert len(message) < 500
