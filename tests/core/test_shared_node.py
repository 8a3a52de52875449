"""A node as the scheduler's side sees it: its cards, and whether anything new may go there."""

from collections.abc import Mapping

import pytest

from gpushare_plugin.core.dialect import ALIYUN, TENCENT, Dialect
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.node_record import (
    GPUS,
    HEALTH,
    CardLink,
    gpus_annotation,
    health_annotation,
)
from gpushare_plugin.core.shared_node import SharedNode, shared_node
from tests.core.cards import cards

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
FULL = {MEM: "46", COUNT: "2"}
PAIR = cards(15, 31)
RECORD = gpus_annotation(
    PAIR,
    resource="aliyun.com/gpu-mem",
    unit_mib=1024,
    isolation="none",
    links=[CardLink(cards=(1, 0), nvlinks=4)],
)


def node(
    annotations: Mapping[str, str] | None = None,
    *,
    capacity: Mapping[str, str] = FULL,
    allocatable: Mapping[str, str] | None = None,
    ready: bool = True,
    names: Dialect = ALIYUN,
    unhealthy: frozenset[int] = frozenset(),
) -> SharedNode:
    return shared_node(
        "gpu-a",
        annotations=annotations or {},
        capacity=capacity,
        allocatable=capacity if allocatable is None else allocatable,
        ready=ready,
        names=names,
        unhealthy_indices=unhealthy,
    )


def test_the_cards_are_those_of_the_record() -> None:
    found = node({GPUS: RECORD})

    assert [(each.index, each.uuid, each.model, each.units) for each in found.cards] == [
        (0, PAIR[0].uuid, "Tesla T4", 15),
        (1, PAIR[1].uuid, "Tesla T4", 31),
    ]
    assert (found.links, found.unit_mib, found.unit) == ({(0, 1): 4}, 1024, "GiB")
    assert found.problem == ""


def test_without_a_record_the_cards_are_alike_as_the_original_counts_them() -> None:
    found = node(capacity={MEM: "47", COUNT: "2"})

    assert [(each.index, each.uuid, each.units) for each in found.cards] == [
        (0, "", 23),
        (1, "", 23),
    ]
    assert (found.problem, found.unit_mib, found.unit) == ("", None, "units")


@pytest.mark.parametrize(
    ("unit_mib", "unit"), [(1024, "GiB"), (1, "MiB"), (256, "units of 256MiB")]
)
def test_a_number_of_units_is_called_by_the_nodes_own_unit(unit_mib: int, unit: str) -> None:
    record = gpus_annotation(
        PAIR, resource="aliyun.com/gpu-mem", unit_mib=unit_mib, isolation="none"
    )

    assert node({GPUS: record}).unit == unit


@pytest.mark.parametrize(
    ("annotations", "capacity", "problem"),
    [
        pytest.param({}, {}, "shares no GPU", id="no-capacity-key"),
        pytest.param({}, {MEM: "0", COUNT: "0"}, "shares no GPU", id="capacity-0"),
        pytest.param({}, {MEM: "46"}, "device plugin is not ready", id="nothing-tells-of-cards"),
        pytest.param({}, {MEM: "46", COUNT: "0"}, "device plugin is not ready", id="count-0"),
        pytest.param({GPUS: RECORD}, {}, "device plugin is not ready", id="record-before-status"),
    ],
)
def test_b84_a_node_without_gpus_or_whose_plugin_is_not_ready_says_so(
    annotations: Mapping[str, str], capacity: Mapping[str, str], problem: str
) -> None:
    found = node(annotations, capacity=capacity)

    assert problem in found.problem


@pytest.mark.parametrize(
    ("annotations", "capacity", "problem"),
    [
        pytest.param({GPUS: "{"}, FULL, GPUS, id="record-does-not-parse"),
        pytest.param(
            {GPUS: '{"v":2,"gpus":[]}'}, FULL, "version 2", id="record-of-another-version"
        ),
        pytest.param({HEALTH: "[]"}, FULL, HEALTH, id="health-does-not-parse"),
        pytest.param({}, {MEM: "many", COUNT: "2"}, "capacity[aliyun.com/gpu-mem]", id="quantity"),
        pytest.param({}, {MEM: "10G", COUNT: "1G"}, "at most 64 cards", id="a-billion-cards"),
    ],
)
def test_what_does_not_parse_is_a_problem_and_never_healthy_cards(
    annotations: Mapping[str, str], capacity: Mapping[str, str], problem: str
) -> None:
    found = node(annotations, capacity=capacity)

    assert problem in found.problem
    assert found.cards == ()


def test_b85_an_unhealthy_card_is_out_of_choice_and_its_neighbour_is_not() -> None:
    sick = {PAIR[1].uuid: CardHealth(state=State.UNHEALTHY, reason="XID 79")}

    found = node({GPUS: RECORD, HEALTH: health_annotation(sick)})

    assert [each.healthy for each in found.cards] == [True, False]
    assert found.problem == ""


def test_b85_the_originals_list_of_unhealthy_cards_counts_too() -> None:
    found = node(unhealthy=frozenset({0, 7}))

    assert [each.healthy for each in found.cards] == [False, True]


@pytest.mark.parametrize(
    ("allocatable", "ready", "problem"),
    [
        pytest.param(FULL, False, "not ready", id="not-ready"),
        pytest.param({MEM: "0"}, True, "gives out no aliyun.com/gpu-mem", id="allocatable-0"),
        pytest.param({}, True, "gives out no aliyun.com/gpu-mem", id="no-allocatable"),
    ],
)
def test_b85_a_node_that_is_gone_keeps_its_cards_and_gets_nothing_new(
    allocatable: Mapping[str, str], ready: bool, problem: str
) -> None:
    found = node({GPUS: RECORD, HEALTH: "{}"}, allocatable=allocatable, ready=ready)

    assert problem in found.problem
    assert len(found.cards) == 2


def test_in_a_dialect_that_counts_no_cards_only_the_record_tells_them() -> None:
    capacity = {TENCENT.memory_resource: "60"}

    assert "neither gpushare.io/gpus nor" in node(capacity=capacity, names=TENCENT).problem
    assert node({GPUS: RECORD}, capacity=capacity, names=TENCENT).problem == ""


def test_a_card_is_found_by_its_uuid_and_an_empty_one_finds_none() -> None:
    recorded, alike = node({GPUS: RECORD}), node()

    assert recorded.card_of(PAIR[1].uuid) == recorded.cards[1]
    assert recorded.card_of("GPU-of-another-node") is None
    assert alike.card_of("") is None
