"""The ConfigMaps of unhealthy cards: indices are taken, junk is passed over and told."""

import pytest

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.unhealthy import UnhealthyCards, read_indices
from gpushare_plugin.ports.cluster import Gone, Upserted
from gpushare_plugin.ports.scheduling import UnhealthyList
from tests.extender.http_sites import node
from tests.node.event_log import EventLog


@pytest.mark.parametrize(
    ("text", "indices", "junk"),
    [
        ("", set(), ()),
        ("0", {0}, ()),
        ("0,2", {0, 2}, ()),
        (" 1 , 0,", {0, 1}, ()),
        ("x", set(), ("x",)),
        ("1,x,-1,1.0,0x1,2", {1, 2}, ("x", "-1", "1.0", "0x1")),
        ("99999,\u0663", set(), ("99999", "\u0663")),
    ],
)
def test_indices_are_read_and_junk_is_none(
    text: str, indices: set[int], junk: tuple[str, ...]
) -> None:
    assert read_indices(text) == (frozenset(indices), junk)


def healthy(cluster: Cluster) -> list[bool]:
    room = cluster.room("a")
    assert room is not None
    return [each.card.healthy for each in room.cards]


def test_a_list_takes_cards_out_and_its_end_brings_them_back(log: EventLog) -> None:
    cluster = Cluster(ALIYUN)
    cluster.node_changed(Upserted(node("a")))
    cards = UnhealthyCards(cluster)

    cards.changed(Upserted(UnhealthyList(node_name="a", text="1,x")))
    assert healthy(cluster) == [True, False]
    [line] = log.of("unhealthy_list_unreadable")
    assert (line["node"], line["found"]) == ("a", "1,x")

    cards.changed(Upserted(UnhealthyList(node_name="a", text="0")))
    assert healthy(cluster) == [False, True]

    cards.changed(Gone(UnhealthyList(node_name="a", text="0")))
    assert healthy(cluster) == [True, True]
