"""What is written on a pod: the truth, only what differs, and never over another's choice."""

import pytest

from gpushare_plugin.core.bookkeeping import (
    ALLOCATION,
    FRAMEWORK_ALLOCATION,
    GPU_COUNT,
    LONGEST_SHOWN,
    MARK,
    MOST_CARDS,
    Choice,
    as_served,
    bookkeeping,
    card_count_of,
    choice_of,
)
from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.dialect import TENCENT
from gpushare_plugin.core.ledger import Holding
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import RecordError
from tests.core.cards import cards
from tests.core.pods import INDEX, NAMES, RESOURCE, pod

TABLE = CardTable(cards(4, 8))
FIRST, SECOND = (card.uuid for card in TABLE.cards)
OURS = {MARK: "1"}
JUNK = ["", "x", "-1", "1.0", "0x1", "\N{ARABIC-INDIC DIGIT ONE}", "1e3", "9" * 5000, "0;1"]


def written(holding: Holding) -> dict[str, str]:
    return bookkeeping(holding, TABLE, NAMES, resource=RESOURCE, now_ns=7)


def holding(holder: Pod, **containers: dict[str, int]) -> Holding:
    return Holding(pod=holder, containers=containers)


def test_a_served_pod_of_our_extender_is_written_whole() -> None:
    assert written(holding(pod(0, 3, annotations=OURS), c1={SECOND: 3})) == {
        ALLOCATION: f'{{"c1":{{"{SECOND}":3}}}}',
        FRAMEWORK_ALLOCATION: '{"1":{"1":3}}',
        INDEX: "1",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_DEV": "8",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "7",
    }


def test_what_stands_there_already_is_not_written_again() -> None:
    held = {SECOND: 3}
    annotations = OURS | written(holding(pod(3, annotations=OURS), c0=held))

    assert written(holding(pod(3, annotations=annotations), c0=held)) == {}


@pytest.mark.parametrize("key", [ALLOCATION, FRAMEWORK_ALLOCATION, INDEX])
def test_what_somebody_changed_is_written_alone(key: str) -> None:
    held = {SECOND: 3}
    annotations = OURS | written(holding(pod(3, annotations=OURS), c0=held))
    changed = annotations | {key: "changed"}

    assert written(holding(pod(3, annotations=changed), c0=held)) == {key: annotations[key]}


def test_the_index_of_another_extenders_pod_is_left_as_it_is() -> None:
    found = written(holding(pod(3, annotations={INDEX: "0"}), c0={SECOND: 3}))

    assert INDEX not in found
    assert found[ALLOCATION] == f'{{"c0":{{"{SECOND}":3}}}}'


def test_a_pod_half_served_has_its_truth_told_and_no_index_yet() -> None:
    found = written(holding(pod(3, 1, annotations=OURS), c0={SECOND: 3}))

    assert found.keys() == {ALLOCATION, FRAMEWORK_ALLOCATION}


def test_of_several_cards_the_index_is_a_list_on_pods_of_our_extender_alone() -> None:
    units = {FIRST: 1, SECOND: 1}

    assert written(holding(pod(2, annotations=OURS), c0=units))[INDEX] == "0,1"
    assert INDEX not in written(holding(pod(2), c0=units))


def test_a_pod_with_devices_of_the_originals_plugin_is_left_as_it_is() -> None:
    held = Holding(pod=pod(3, annotations=OURS), containers={"c0": {FIRST: 1}}, foreign_units=2)

    assert written(held) == {}


def test_a_sidecar_is_in_the_truth_and_not_among_the_numbered_containers() -> None:
    found = written(holding(pod(2, sidecar=(1,)), s0={FIRST: 1}, c0={FIRST: 2}))

    assert found[ALLOCATION] == f'{{"c0":{{"{FIRST}":2}},"s0":{{"{FIRST}":1}}}}'
    assert found[FRAMEWORK_ALLOCATION] == '{"0":{"0":2}}'


@pytest.mark.parametrize(
    ("text", "cards"),
    [("0", (0,)), ("1", (1,)), (" 7 ", (7,)), ("0,1", (0, 1)), ("1, 0", (1, 0)), ("1,1", (1,))],
)
def test_the_chosen_cards_are_read(text: str, cards: tuple[int, ...]) -> None:
    assert choice_of(pod(1, annotations={INDEX: text}), NAMES) == Choice(cards=cards, ours=False)
    marked = {INDEX: text} | OURS
    assert choice_of(pod(1, annotations=marked), NAMES) == Choice(cards=cards, ours=True)


def test_the_other_dialects_choice_is_read_container_by_container() -> None:
    keys = {f"tencent.com/predicate-gpu-idx-{n}": str(card) for n, card in enumerate((1, 1, 0))}
    asking = pod(1, 1, 1, annotations=keys)

    choices = [
        choice_of(asking, TENCENT.annotations, served=served)
        for served in ((), ("c0",), ("c0", "c1"))
    ]

    assert choices == [Choice(cards=(card,), ours=False) for card in (1, 1, 0)]


def test_without_a_choice_there_is_none() -> None:
    assert choice_of(pod(1, annotations=OURS), NAMES) is None


@pytest.mark.parametrize("junk", JUNK)
def test_b58_a_choice_that_does_not_parse_is_an_error_that_names_it(junk: str) -> None:
    with pytest.raises(RecordError, match=f"pod default/a, annotation {INDEX}: found") as error:
        choice_of(pod(1, annotations={INDEX: junk}), NAMES)

    assert len(str(error.value)) < LONGEST_SHOWN * 3


@pytest.mark.parametrize("junk", [*JUNK, "0", str(MOST_CARDS + 1)])
def test_a_number_of_cards_that_is_none_is_an_error_that_names_it(junk: str) -> None:
    with pytest.raises(RecordError, match=f"annotation {GPU_COUNT}: found"):
        card_count_of(pod(1, annotations={GPU_COUNT: junk}))


@pytest.mark.parametrize(("text", "count"), [(None, 1), ("1", 1), ("2", 2), (str(MOST_CARDS), 64)])
def test_the_number_of_cards_is_one_unless_the_pod_says_otherwise(
    text: str | None, count: int
) -> None:
    assert card_count_of(pod(1, annotations={GPU_COUNT: text} if text else {})) == count


@pytest.mark.parametrize(
    ("annotations", "units", "served"),
    [
        pytest.param({INDEX: "0"}, {FIRST: 1, SECOND: 2}, {FIRST: 3}, id="forced"),
        pytest.param({INDEX: "0"}, {SECOND: 3}, {SECOND: 3}, id="there was room elsewhere"),
        pytest.param({INDEX: "0"} | OURS, {FIRST: 1, SECOND: 1}, {FIRST: 1, SECOND: 1}, id="ours"),
        pytest.param({INDEX: "7"}, {FIRST: 1, SECOND: 1}, {FIRST: 1, SECOND: 1}, id="no such card"),
        pytest.param({INDEX: "x"}, {FIRST: 1, SECOND: 1}, {FIRST: 1, SECOND: 1}, id="junk"),
        pytest.param(
            {INDEX: "0", GPU_COUNT: "2"}, {FIRST: 2, SECOND: 2}, {FIRST: 2, SECOND: 2}, id="spread"
        ),
        pytest.param({INDEX: "0", GPU_COUNT: "2"}, {FIRST: 1, SECOND: 3}, {FIRST: 4}, id="uneven"),
        pytest.param(
            {INDEX: "0", GPU_COUNT: "x"}, {FIRST: 2, SECOND: 2}, {FIRST: 4}, id="no count"
        ),
    ],
)
def test_ids_of_several_cards_count_on_the_card_that_the_container_was_served_with(
    annotations: dict[str, str], units: dict[str, int], served: dict[str, int]
) -> None:
    held = holding(pod(3, annotations=annotations), c0=units)

    assert as_served(held, TABLE, NAMES).containers == {"c0": served}
