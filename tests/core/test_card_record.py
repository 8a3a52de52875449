"""The copy of the record: all that a card is known by, and nothing of another node's."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from gpushare_plugin.core.card_record import local_record, parse_record
from gpushare_plugin.core.devices import Card, Gpu
from gpushare_plugin.core.sharing import SharingRule, share
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.errors import RecordError
from tests.core.cards import UUIDS, card, cards, gpu, gpu_lists

ONE_MIB = SharingRule(units=UnitRule(unit_mib=1))
NODE = "gpu-a"


def written(*shared: Card) -> str:
    return local_record(shared, unit_mib=1, node_name=NODE)


@given(gpus=gpu_lists())
def test_what_is_written_is_read_again_with_all_that_a_card_is_known_by(gpus: list[Gpu]) -> None:
    shared = share(gpus, ONE_MIB).cards

    record = parse_record(written(*shared), name="the file", node_name=NODE)

    assert record.unit_mib == 1
    assert [
        (each.index, each.uuid, each.tag, each.units, each.model, each.memory, each.mig)
        for each in record.cards
    ] == [
        (each.index, each.uuid, each.tag, each.units, each.gpu.model, each.gpu.memory, each.gpu.mig)
        for each in shared
    ]


def test_the_numa_node_is_kept_where_there_is_one() -> None:
    near = replace(gpu(UUIDS[0]), numa_node=1)

    record = parse_record(written(card(uuid=UUIDS[0], on=near)), name="the file")

    assert [each.numa_node for each in record.cards] == [1]


def test_a_tag_is_written_only_where_the_uuid_alone_would_give_another() -> None:
    plain, clashing = cards(1, 1)
    fields = json.loads(written(plain, replace(clashing, tag="abcdef01")))["gpus"]

    assert [each.get("tag") for each in fields] == [None, "abcdef01"]


def test_the_record_of_another_node_is_an_error_that_names_both() -> None:
    with pytest.raises(RecordError, match=r"/x: found the record of node 'gpu-a', .*'gpu-b'"):
        parse_record(written(card()), name="/x", node_name="gpu-b")


@pytest.mark.parametrize(
    "change",
    [
        {"index": 1},
        {"tag": "6F0C3A52"},
        {"tag": 3},
        {"reserved_bytes": None},
        {"total_bytes": "1"},
        {"mig": []},
        {"mig": {"gpu": "GPU-a", "gi": 1}},
        {"numa": -1},
        {"model": None},
    ],
    ids=str,
)
def test_a_field_that_does_not_parse_is_an_error_and_never_a_default(
    change: dict[str, object],
) -> None:
    content = json.loads(written(card()))
    content["gpus"][0].update(change)

    with pytest.raises(RecordError, match=r"^/x: found .*does not parse"):
        parse_record(json.dumps(content), name="/x")


@pytest.mark.parametrize("same", ["uuid", "tag"])
def test_two_cards_that_are_one_are_an_error(same: str) -> None:
    content = json.loads(written(*cards(1, 1)))
    for each in content["gpus"]:
        each[same] = "aaaaaaaa"

    with pytest.raises(RecordError, match="1 UUIDs or tags of 2 cards"):
        parse_record(json.dumps(content), name="/x")


def test_a_copy_without_a_nodes_name_is_an_error_where_one_is_asked_for() -> None:
    content = json.loads(written(card()))
    del content["node"]

    with pytest.raises(RecordError, match="'node'"):
        parse_record(json.dumps(content), name="/x", node_name=NODE)


def test_links_are_read_by_the_pair_the_lower_card_first() -> None:
    content = json.loads(written(*cards(1, 1, 1))) | {"links": [[0, 1, 4], [2, 0, 2]]}

    assert parse_record(json.dumps(content), name="/x").links == {(0, 1): 4, (0, 2): 2}


@pytest.mark.parametrize(
    "links", [[[0, 1]], [[0, 2, 4]], [[1, 1, 4]], [[0, 1, -1]], [7], 7], ids=str
)
def test_a_link_that_joins_no_two_cards_is_an_error(links: object) -> None:
    content = json.loads(written(*cards(1, 1))) | {"links": links}

    with pytest.raises(RecordError, match=r"^/x: found .*does not parse"):
        parse_record(json.dumps(content), name="/x")
