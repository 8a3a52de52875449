"""Where a pod's units sit: on which cards, and how many on each."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.dialect import ALIYUN, TENCENT
from gpushare_plugin.core.pods import ContainerKind, requested_units
from gpushare_plugin.core.seats import Seats, seats_of
from tests.core.nodes import IDX, INIT, MAIN, SIDECAR, node_of, pod_of, uuid_of

ALLOCATION = "gpushare.io/allocation"
FOUR = node_of(8, 8, 8, 8)
A, B = uuid_of(0), uuid_of(1)


def allocation(text: str) -> dict[str, str]:
    return {ALLOCATION: text.replace("A:", f'"{A}":').replace("B:", f'"{B}":')}


@pytest.mark.parametrize(
    ("annotations", "units", "unknown"),
    [
        pytest.param(allocation('{"c0":{B:6}}') | {IDX: "0"}, {1: 6}, 0, id="allocation-is-truth"),
        pytest.param(allocation('{"c0":{A:3,B:3}}'), {0: 3, 1: 3}, 0, id="two-cards"),
        pytest.param(allocation('{"c0":{B:1}}'), {1: 6}, 0, id="the-amount-is-the-specs"),
        pytest.param({IDX: "2"}, {2: 6}, 0, id="chosen"),
        pytest.param({IDX: "0,3"}, {0: 3, 3: 3}, 0, id="several-chosen"),
        pytest.param({ALLOCATION: "{", IDX: "2"}, {2: 6}, 0, id="allocation-garbled"),
        pytest.param({ALLOCATION: "[]", IDX: "2"}, {2: 6}, 0, id="allocation-no-map"),
        pytest.param({ALLOCATION: '{"c0":7}', IDX: "2"}, {2: 6}, 0, id="allocation-no-cards"),
        pytest.param({ALLOCATION: '{"c0":{}}', IDX: "2"}, {2: 6}, 0, id="allocation-of-nothing"),
        pytest.param(
            {ALLOCATION: json.dumps({"c0": [B, B, B]})},
            {1: 6},
            0,
            id="allocation-of-one-card-thrice",
        ),
        pytest.param(
            {ALLOCATION: '{"c0":{"GPU-elsewhere":6}}', IDX: "2"}, {2: 6}, 0, id="another-nodes-card"
        ),
        pytest.param(
            allocation('{"c0":{A:3,"GPU-elsewhere":3}}') | {IDX: "2"},
            {2: 6},
            0,
            id="one-is-another-nodes",
        ),
        pytest.param({}, {}, 6, id="nothing-tells"),
        pytest.param({IDX: "9"}, {}, 6, id="no-such-card"),
        pytest.param({IDX: "first"}, {}, 6, id="index-garbled"),
        pytest.param({IDX: "-1"}, {}, 6, id="index-below-0"),
    ],
)
def test_the_card_is_the_allocated_one_else_the_chosen_one_else_it_is_not_known(
    annotations: Mapping[str, str], units: Mapping[int, int], unknown: int
) -> None:
    found = seats_of(pod_of((MAIN, 6), annotations=annotations), FOUR, ALIYUN)

    assert found == Seats(units=units, unknown_units=unknown)


def test_on_a_node_of_one_card_a_pod_that_nobody_placed_is_on_that_card() -> None:
    assert seats_of(pod_of((MAIN, 6, 40)), node_of(8), ALIYUN) == Seats(units={0: 6}, cores={0: 40})


def test_a_pod_that_asks_for_nothing_has_no_seat() -> None:
    assert seats_of(pod_of((MAIN, 0), annotations={IDX: "0"}), FOUR, ALIYUN) == Seats()


def test_units_that_do_not_divide_lose_none() -> None:
    found = seats_of(pod_of((MAIN, 7), annotations={IDX: "1,2,3"}), FOUR, ALIYUN)

    assert found.units == {1: 3, 2: 2, 3: 2}


def test_containers_on_different_cards_sit_on_each_with_their_own_units_and_cores() -> None:
    told = allocation('{"c0":{A:2},"c1":{B:3}}')

    found = seats_of(pod_of((MAIN, 2, 10), (MAIN, 3, 20), annotations=told), FOUR, ALIYUN)

    assert found == Seats(units={0: 2, 1: 3}, cores={0: 10, 1: 20})


@pytest.mark.parametrize(
    ("told", "units", "unknown"),
    [
        pytest.param('{"c1":{A:2}}', {0: 2}, 3, id="nobody-chose"),
        pytest.param('{"c1":{A:2}}+IDX', {0: 2, 3: 3}, 0, id="the-rest-is-where-it-was-chosen"),
        pytest.param('{"c1":{A:2},"c2":{A:3}}', {0: 5}, 0, id="all-served"),
    ],
)
def test_containers_that_are_not_served_yet_are_where_the_pod_was_to_go(
    told: str, units: Mapping[int, int], unknown: int
) -> None:
    chosen = {IDX: "3"} if "+IDX" in told else {}
    pod = pod_of(
        (INIT, 1),
        (MAIN, 2),
        (MAIN, 3),
        annotations=allocation(told[:-4] if chosen else told) | chosen,
    )

    assert seats_of(pod, FOUR, ALIYUN) == Seats(units=units, unknown_units=unknown)


@pytest.mark.parametrize(
    ("containers", "units"),
    [
        pytest.param([(INIT, 10), (INIT, 10), (INIT, 10), (MAIN, 4)], 10, id="inits-in-turn"),
        pytest.param([(SIDECAR, 4), (MAIN, 4)], 8, id="sidecar-stays"),
        pytest.param([(SIDECAR, 2), (INIT, 6), (MAIN, 3)], 8, id="sidecar-before-init"),
        pytest.param([(INIT, 6), (SIDECAR, 2), (MAIN, 3)], 6, id="sidecar-after-init"),
    ],
)
@pytest.mark.parametrize("told", ["allocation", "chosen", "only card"])
def test_b80_a_cards_part_is_the_most_that_runs_at_one_time(
    containers: list[tuple[ContainerKind, int]], units: int, told: str
) -> None:
    names = [f'"c{n}":{{A:1}}' for n, (kind, _) in enumerate(containers) if kind is not INIT]
    annotations = {
        "allocation": allocation(f"{{{','.join(names)}}}"),
        "chosen": {IDX: "0"},
        "only card": {},
    }[told]

    found = seats_of(
        pod_of(*containers, annotations=annotations),
        node_of(16) if told == "only card" else FOUR,
        ALIYUN,
    )

    assert found == Seats(units={0: units})


def test_what_an_init_container_had_beyond_containers_on_two_cards_is_of_an_unknown_card() -> None:
    told = allocation('{"c1":{A:2},"c2":{B:2}}')

    found = seats_of(pod_of((INIT, 7), (MAIN, 2), (MAIN, 2), annotations=told), FOUR, ALIYUN)

    assert found == Seats(units={0: 2, 1: 2}, unknown_units=3)


@pytest.mark.parametrize(
    ("annotations", "units", "unknown"),
    [
        pytest.param({0: "1", 1: "3"}, {1: 2, 3: 5}, 0, id="each-has-its-own"),
        pytest.param({0: "0,1", 1: "3"}, {0: 1, 1: 1, 3: 5}, 0, id="a-list"),
        pytest.param({0: "1"}, {1: 7}, 0, id="one-of-them"),
        pytest.param({0: "1", 1: "9"}, {1: 2}, 5, id="no-such-card"),
        pytest.param({0: "1", 1: "x"}, {1: 2}, 5, id="garbled"),
    ],
)
def test_where_each_container_has_its_own_index_it_sits_there(
    annotations: Mapping[int, str], units: Mapping[int, int], unknown: int
) -> None:
    keys = {f"tencent.com/predicate-gpu-idx-{n}": text for n, text in annotations.items()}
    pod = pod_of((MAIN, 2), (MAIN, 5), annotations=keys, names=TENCENT)

    assert seats_of(pod, FOUR, TENCENT) == Seats(units=units, unknown_units=unknown)


kinds = st.sampled_from((INIT, SIDECAR, MAIN))
annotation_texts = st.sampled_from(
    (
        {},
        {IDX: "1"},
        {IDX: "0,2"},
        {IDX: "x"},
        allocation('{"c0":{A:1},"c1":{B:1}}'),
        allocation('{"c1":{A:1,B:1}}'),
        allocation('{"c0":{A:1}}') | {IDX: "3"},
    )
)


@given(
    containers=st.lists(st.tuples(kinds, st.integers(0, 5), st.integers(0, 9)), max_size=4),
    annotations=annotation_texts,
)
def test_no_unit_and_no_core_of_a_pod_is_ever_lost_or_counted_twice(
    containers: list[tuple[ContainerKind, int, int]], annotations: Mapping[str, str]
) -> None:
    pod = pod_of(*containers, annotations=annotations)

    found = seats_of(pod, FOUR, ALIYUN)

    assert sum(found.units.values()) + found.unknown_units == requested_units(
        pod, ALIYUN.memory_resource
    )
    assert sum(found.cores.values()) + found.unknown_cores == requested_units(
        pod, ALIYUN.core_resource
    )
