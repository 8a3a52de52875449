"""The node's record: what is written can be read again, and what is no record is an error."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.card_record import Record, RecordedCard
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.node_record import (
    LONGEST_BYTES,
    LONGEST_LABEL,
    CardLink,
    gpus_annotation,
    health_annotation,
    label_value,
    labels,
    parse_gpus,
    parse_health,
)
from gpushare_plugin.errors import RecordError
from tests.core.cards import card, cards, gpu

LABEL_LETTERS = set(string.ascii_letters + string.digits + "_.-")


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(1, 3))
def test_what_is_written_is_read_again(units: list[int], unit_mib: int) -> None:
    shared = cards(*units)

    record = parse_gpus(
        gpus_annotation(shared, resource="aliyun.com/gpu-mem", unit_mib=unit_mib, isolation="none")
    )

    assert record == Record(
        resource="aliyun.com/gpu-mem",
        unit_mib=unit_mib,
        cards=tuple(
            RecordedCard(
                index=each.index,
                uuid=each.uuid,
                tag=each.tag,
                units=each.units,
                model=each.gpu.model,
            )
            for each in shared
        ),
    )


def test_a_record_is_compact_and_names_links_only_where_there_are_any() -> None:
    pair = cards(1, 1)
    without = gpus_annotation(pair, resource="aliyun.com/gpu-mem", unit_mib=1, isolation="none")
    link = CardLink(cards=(0, 1), nvlinks=4)

    joined = json.loads(
        gpus_annotation(
            pair, resource="aliyun.com/gpu-mem", unit_mib=1, isolation="none", links=[link]
        )
    )

    assert " " not in without.replace("Tesla T4", "")
    assert "links" not in without
    assert joined["links"] == [[0, 1, 4]]


def test_a_record_that_is_longer_than_an_annotation_may_be_is_an_error() -> None:
    many = [card(0, uuid=f"GPU-{number:08x}-0000") for number in range(LONGEST_BYTES // 60)]

    with pytest.raises(RecordError, match=f"expected at most {LONGEST_BYTES}"):
        gpus_annotation(many, resource="aliyun.com/gpu-mem", unit_mib=1, isolation="none")


def test_cards_are_ordered_by_their_index_however_they_are_written() -> None:
    text = gpus_annotation(
        cards(1, 2, 3)[::-1], resource="aliyun.com/gpu-mem", unit_mib=1, isolation="none"
    )

    assert [card.uuid for card in parse_gpus(text).cards] == [card.uuid for card in cards(1, 2, 3)]


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "x",
        "null",
        "[]",
        "3",
        "{}",
        '{"v":2,"unit_mib":1,"gpus":[]}',
        '{"v":1,"gpus":[]}',
        '{"v":1,"resource":3,"unit_mib":1,"gpus":[]}',
        '{"v":1,"resource":"gpu-mem","unit_mib":1,"gpus":[]}',
        '{"v":1,"unit_mib":1,"gpus":{}x}',
        '{"v":1,"unit_mib":1,"gpus":null}',
        '{"v":1,"unit_mib":"1","gpus":[]}',
        '{"v":1,"unit_mib":-1,"gpus":[]}',
        '{"v":1,"unit_mib":true,"gpus":[]}',
        '{"v":1,"unit_mib":1,"gpus":[3]}',
        '{"v":1,"unit_mib":1,"gpus":[{"index":0,"units":1}]}',
        '{"v":1,"unit_mib":1,"gpus":[{"index":0,"uuid":null,"units":1}]}',
        '{"v":1,"unit_mib":1,"gpus":[{"index":0.5,"uuid":"GPU-a","units":1}]}',
        '{"v":1,"unit_mib":1,"gpus":[{"index":1,"uuid":"GPU-a","units":1,"model":"x"}]}',
        '{"v":1,"unit_mib":1,"gpus":[{"index":0,"uuid":"GPU-a","units":1,"model":"x","tag":"A"}]}',
        '{"v":1,"unit_mib":' + "9" * 5000 + ',"gpus":[]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_record_is_an_error_and_never_no_cards(junk: str) -> None:
    with pytest.raises(RecordError, match=r"gpushare\.io/gpus: found"):
        parse_gpus(junk)


def test_of_health_only_what_is_ill_is_told() -> None:
    health = {
        "GPU-b": CardHealth(state=State.UNHEALTHY, reason='XID "79"'),
        "GPU-a": CardHealth(),
    }

    assert json.loads(health_annotation(health)) == {
        "GPU-b": {"state": "unhealthy", "reason": 'XID "79"'}
    }
    assert health_annotation({}) == "{}"


@pytest.mark.parametrize(
    ("shared", "wanted"),
    [
        pytest.param(cards(2, 2), {"count": "2", "model": "Tesla-T4"}, id="alike"),
        pytest.param(cards(1), {"count": "1", "memory-gib": "0"}, id="one"),
        pytest.param(
            (card(0, on=gpu(total_mib=1024)), card(1, on=gpu(total_mib=2048))),
            {"count": "2", "memory-gib": "mixed", "model": "Tesla-T4"},
            id="sizes differ",
        ),
    ],
)
def test_labels_say_what_all_cards_are_or_that_they_are_mixed(
    shared: tuple[Card, ...], wanted: dict[str, str]
) -> None:
    found = labels(shared, unit_mib=1024, isolation="none")

    assert {f"gpushare.io/{key}": value for key, value in wanted.items()}.items() <= found.items()
    assert found["gpushare.io/unit"] == "GiB"


@given(st.text(max_size=80))
def test_any_text_becomes_a_value_that_a_label_may_have(text: str) -> None:
    value = label_value(text)

    assert len(value) <= LONGEST_LABEL
    assert set(value) <= LABEL_LETTERS
    assert value == "" or (value[0].isalnum() and value[-1].isalnum())


def test_the_unhealthy_cards_that_are_written_are_read_again() -> None:
    health = {
        "GPU-a": CardHealth(),
        "GPU-b": CardHealth(state=State.UNHEALTHY, reason="XID 79"),
    }

    assert parse_health(health_annotation(health)) == {"GPU-b": "XID 79"}


@pytest.mark.parametrize("text", ["", "{", "[]", '"GPU-a"', '{"GPU-a":{}}', '{"GPU-a":1}'])
def test_health_that_does_not_parse_is_an_error_and_never_healthy(text: str) -> None:
    with pytest.raises(RecordError, match=r"^gpushare.io/health: found "):
        parse_health(text)
