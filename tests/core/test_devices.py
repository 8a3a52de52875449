"""Device IDs: unique, stable, strict; and how large a message of them can get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.devices import (
    MESSAGE_LIMIT_BYTES,
    CardTable,
    DeviceId,
    card_tags,
    is_foreign_id,
    parse_device_id,
    worst_case_message_bytes,
)
from gpushare_plugin.errors import DeviceIdError
from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from tests.core.cards import UUIDS, card, cards, uuid_lists

FOREIGN = "GPU-11111111-aaaa-bbbb-cccc-000000000000-_-14"

not_ids = st.one_of(
    st.sampled_from(
        [
            "",
            "00000000",
            "00000000-",
            "-1",
            "00000000-01",
            "00000000--1",
            "00000000-+1",
            "00000000-1 ",
            "00000000-1\n",
            "0000000-1",
            "000000000-1",
            "0000000G-1",
            "ABCDEF00-1",
            "00000000-12345678",
            "00000000-1-1",
            "core-1",
            "00000000-\u0661",
        ]
    ),
    st.text(alphabet="0a-_\n", max_size=12).filter(
        lambda text: not (len(text) > 9 and text[8] == "-" and text[:8].isalnum())
    ),
)


@given(uuids=uuid_lists)
def test_no_two_cards_of_a_node_share_a_tag(uuids: list[str]) -> None:
    tags = card_tags(uuids)

    assert set(tags) == set(uuids)
    assert len(set(tags.values())) == len(uuids)
    assert all(parse_device_id(f"{tag}-0").tag == tag for tag in tags.values())


@given(uuids=uuid_lists, data=st.data())
def test_tags_are_the_same_in_every_order_of_the_cards(
    uuids: list[str], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(uuids))

    assert card_tags(shuffled) == card_tags(uuids)


def test_a_tag_is_the_uuids_first_eight_digits_where_it_can_be() -> None:
    assert card_tags([UUIDS[0], UUIDS[2]]) == {UUIDS[0]: "00000000", UUIDS[2]: "11111111"}


def test_cards_that_would_clash_are_both_told_apart_by_all_of_their_uuid() -> None:
    tags = card_tags(UUIDS[:2])

    assert "00000000" not in tags.values()


def test_a_card_whose_digits_are_the_hash_of_another_is_told_from_it_too() -> None:
    first, second = UUIDS[:2]
    hash_of_first = card_tags([first, second])[first]
    third = f"GPU-{hash_of_first}-0000"

    for uuids in ([first, second, third], [third, second, first]):
        tags = card_tags(uuids)

        assert tags[third] == hash_of_first
        assert len(set(tags.values())) == 3


def test_a_mig_instance_does_not_take_the_tag_of_a_gpu_with_the_same_digits() -> None:
    gpu, instance = UUIDS[0], UUIDS[5]

    tags = card_tags([gpu, instance])

    assert tags[gpu] == "00000000"
    assert tags[instance] == card_tags([instance])[instance] != "00000000"


def test_a_uuid_in_capitals_has_the_same_digits() -> None:
    uuid = "GPU-ABCDEF01-AAAA-BBBB-CCCC-000000000000"

    assert card_tags([uuid]) == {uuid: "abcdef01"}


@given(
    tag=st.sampled_from(("00000000", "abcdef01")), ordinal=st.sampled_from((0, 1, 9, 10, 9_999_999))
)
def test_an_id_is_read_back(tag: str, ordinal: int) -> None:
    device = DeviceId(tag=tag, ordinal=ordinal)

    assert parse_device_id(str(device)) == device


@given(text=not_ids)
def test_what_is_no_id_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(DeviceIdError) as caught:
        parse_device_id(text)

    assert repr(text) in str(caught.value)


def test_an_endless_id_is_cut_in_the_error() -> None:
    with pytest.raises(DeviceIdError) as caught:
        parse_device_id("x" * 100_000)

    assert len(str(caught.value)) < 300


def test_an_id_of_the_original_plugin_is_recognised_and_named() -> None:
    with pytest.raises(DeviceIdError, match="original gpushare"):
        parse_device_id(FOREIGN)

    assert is_foreign_id(FOREIGN)


@given(uuids=uuid_lists, ordinal=st.integers(0, 20))
def test_our_own_ids_are_not_taken_for_the_originals(uuids: list[str], ordinal: int) -> None:
    ids = [f"{tag}-{ordinal}" for tag in card_tags(uuids).values()]

    assert not any(is_foreign_id(each) for each in ids)


@given(units=st.lists(st.integers(0, 3), max_size=3))
def test_each_unit_of_each_card_leads_back_to_its_card(units: list[int]) -> None:
    table = CardTable(cards(*units))

    ids = {each: card for card in table.cards for each in card.device_ids()}

    assert len(ids) == sum(units)
    assert all(table.of_device(each) == card for each, card in ids.items())


def test_a_unit_that_the_card_does_not_have_is_refused() -> None:
    table = CardTable(cards(2))

    with pytest.raises(DeviceIdError, match=r"'00000000-2': card 0 has 2 units, 0 to 1"):
        table.of_device("00000000-2")


def test_an_id_of_no_card_of_the_node_is_refused_with_the_cards_there_are() -> None:
    table = CardTable(cards(2, 2))

    with pytest.raises(DeviceIdError, match=r"its cards are 00000000, 00000001"):
        table.of_device("deadbeef-0")


def test_ids_are_grouped_by_card_in_order_of_index() -> None:
    first, second = cards(4, 4)
    table = CardTable((first, second))

    grouped = table.group(["00000001-3", "00000000-2", "00000001-0"])

    assert list(grouped.items()) == [
        (first, ["00000000-2"]),
        (second, ["00000001-3", "00000001-0"]),
    ]


def test_one_bad_id_among_good_ones_is_an_error_not_a_smaller_group() -> None:
    with pytest.raises(DeviceIdError):
        CardTable(cards(4)).group(["00000000-1", FOREIGN])


def test_a_card_is_found_by_its_uuid() -> None:
    one = card(0)
    table = CardTable([one])

    assert table.of_uuid(one.uuid) is one
    assert table.of_uuid("GPU-elsewhere") is None


@given(
    units=st.lists(st.sampled_from((0, 1, 9, 10, 11, 99, 100, 101, 1001)), max_size=3),
    with_numa=st.booleans(),
)
def test_the_worst_message_has_the_size_that_protobuf_gives_it(
    units: list[int], *, with_numa: bool
) -> None:
    topology = wire.TopologyInfo(nodes=[wire.NUMANode(ID=1)]) if with_numa else None
    devices = [
        wire.Device(ID=device_id, health="Unhealthy", topology=topology)
        for card in cards(*units)
        for device_id in card.device_ids()
    ]
    message = wire.ListAndWatchResponse(devices=devices)

    assert worst_case_message_bytes(units, with_numa=with_numa) == message.ByteSize()


@pytest.mark.parametrize("units", [10_000, 100_000, 1_000_000])
def test_the_worst_message_grows_with_the_digits_of_large_cards(units: int) -> None:
    digits = sum(len(str(ordinal)) for ordinal in range(units))

    assert worst_case_message_bytes([units], with_numa=False) == units * (9 + 15) + digits


def test_the_limit_is_what_the_kubelets_client_takes() -> None:
    assert MESSAGE_LIMIT_BYTES == 4_194_304
