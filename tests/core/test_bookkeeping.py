"""What is written on a pod: the truth, only what differs, and never over another's choice."""

import pytest

from gpushare_plugin.core.bookkeeping import (
    ALLOCATION,
    FRAMEWORK_ALLOCATION,
    MARK,
    Choice,
    as_served,
    bookkeeping,
    choice_of,
    withheld_units,
)
from gpushare_plugin.core.card_count import GPU_COUNT, LONGEST_SHOWN
from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.dialect import TENCENT
from gpushare_plugin.core.ledger import Holding
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import RecordError
from tests.core.cards import cards
from tests.core.pods import INDEX, NAMES, RESOURCE, listing, pod

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
    held = Holding(pod=pod(3, annotations=OURS), containers={"c0": {FIRST: 1}}, foreign={"c1": 2})

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
    held = holding(pod(sum(units.values()), annotations=annotations), c0=units)

    assert as_served(held, TABLE, NAMES, RESOURCE).containers == {"c0": served}


# ------------------------------------------------------------ units that the IDs do not tell


def foreign(*units: int) -> tuple[str, ...]:
    return tuple(f"GPU-aaaa-_-{n}" for n in units)


@pytest.mark.parametrize(
    ("annotations", "served"),
    [
        pytest.param({INDEX: "1"}, {"c0": {SECOND: 2}}, id="by annotation"),
        pytest.param({INDEX: "1"} | OURS, {"c0": {SECOND: 2}}, id="marked by ours"),
        pytest.param({}, {}, id="no annotation"),
        pytest.param({INDEX: "7"}, {}, id="no such card"),
        pytest.param({INDEX: "x"}, {}, id="junk"),
    ],
)
def test_devices_of_the_originals_plugin_are_on_the_card_that_the_annotation_names(
    annotations: dict[str, str], served: dict[str, dict[str, int]]
) -> None:
    held = Holding(pod=pod(2, annotations=annotations), containers={}, foreign={"c0": 2})

    found = as_served(held, TABLE, NAMES, RESOURCE)

    assert found.containers == served
    assert (found.foreign_units, found.unplaced_units) == (2, 0 if served else 2)
    assert written(found) == {}


def test_devices_of_the_originals_plugin_are_on_the_only_card_though_nothing_says_so() -> None:
    table = CardTable(cards(4))
    held = Holding(pod=pod(2), containers={}, foreign={"c0": 2})

    assert as_served(held, table, NAMES, RESOURCE).containers == {"c0": {FIRST: 2}}


TAGS = [card.tag for card in TABLE.cards]


@pytest.mark.parametrize(
    ("listed", "annotations", "withheld"),
    [
        pytest.param(foreign(0, 1), {INDEX: "1"}, {SECOND: 2}, id="the original's"),
        pytest.param(foreign(0, 1), {}, {}, id="nothing tells the card"),
        pytest.param((f"{TAGS[0]}-0", f"{TAGS[1]}-0"), {INDEX: "1"}, {SECOND: 1}, id="forced"),
        pytest.param(
            (f"{TAGS[0]}-0", f"{TAGS[1]}-0"), {INDEX: "0,1", GPU_COUNT: "2"} | OURS, {}, id="spread"
        ),
        pytest.param((f"{TAGS[1]}-0", f"{TAGS[1]}-1"), {INDEX: "0"}, {}, id="where its IDs are"),
        pytest.param((), {INDEX: "0"}, {}, id="nothing yet"),
    ],
)
def test_what_is_used_of_a_card_beyond_what_the_kubelet_counts_is_withheld(
    listed: tuple[str, ...], annotations: dict[str, str], withheld: dict[str, int]
) -> None:
    holder = pod(2, annotations=annotations)

    found = withheld_units([listing(c0=listed)], [holder], TABLE, NAMES, RESOURCE)

    assert found == withheld


# ----------------------------------------------------------- the cards container by container

IDX = "tencent.com/predicate-gpu-idx-{}"


def written_by_number(holder: Pod, **containers: dict[str, int]) -> dict[str, str]:
    held = holding(holder, **containers)
    found = bookkeeping(held, TABLE, TENCENT.annotations, resource=RESOURCE, now_ns=7)
    return {key: value for key, value in found.items() if key.startswith("tencent.com/predicate-")}


def test_each_containers_index_is_corrected_under_our_mark() -> None:
    wrong = {IDX.format(0): "0", IDX.format(2): "1", IDX.format(3): "1"} | OURS
    holder = pod(1, 0, 2, 1, annotations=wrong)

    found = written_by_number(holder, c0={SECOND: 1}, c2={FIRST: 1, SECOND: 1}, c3={SECOND: 1})

    assert found == {
        IDX.format(0): "1",
        IDX.format(2): "0,1",
        "tencent.com/predicate-node": "node",
        "tencent.com/predicate-time": "7",
    }


def test_the_index_of_another_extender_is_left_for_each_container() -> None:
    holder = pod(1, 1, annotations={IDX.format(1): "0"})

    assert written_by_number(holder, c0={SECOND: 1}, c1={SECOND: 1}).keys() == {
        "tencent.com/predicate-time"
    }


def test_sidecars_and_init_containers_have_no_number() -> None:
    holder = pod(1, init=(1,), sidecar=(1,), annotations=OURS)

    found = written_by_number(holder, s0={FIRST: 1}, c0={FIRST: 1})

    assert found[IDX.format(0)] == "0"
    assert IDX.format(1) not in found
