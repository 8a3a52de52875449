"""Inspect: the ledger as the original's page has it."""

from gpushare_plugin.extender.inspecting import (
    InspectCard,
    InspectNode,
    InspectPage,
    InspectPod,
    inspect,
)
from tests.extender.clusters import node, pod, told


def used(name: str, units: int) -> InspectPod:
    return InspectPod(name=name, namespace="default", used_units=units)


def test_a_node_shows_its_cards_and_the_pods_on_them() -> None:
    cluster = told(
        node("a", 15, 23),
        pod("q", 2, on="a", card="1"),
        pod("p", 4, on="a", card="1"),
        pod("both", 6, on="a", card="0,1", annotations={"gpushare.io/gpu-count": "2"}),
    )

    assert inspect(cluster, "a") == InspectPage(
        nodes=(
            InspectNode(
                name="a",
                total_units=38,
                used_units=12,
                cards=(
                    InspectCard(index=0, total_units=15, used_units=3, pods=(used("both", 3),)),
                    InspectCard(
                        index=1,
                        total_units=23,
                        used_units=9,
                        pods=(used("both", 3), used("p", 4), used("q", 2)),
                    ),
                ),
            ),
        )
    )


def test_what_is_on_an_unknown_card_is_in_the_nodes_sum_alone() -> None:
    page = inspect(told(node("a", 15, 15), pod("p", 4, on="a")), "a")

    assert page is not None
    assert page.nodes[0].used_units == 4
    assert [card.used_units for card in page.nodes[0].cards] == [0, 0]


def test_b84_all_nodes_are_shown_by_name_those_without_cards_too() -> None:
    page = inspect(told(node("b", 15), node("cpu"), node("a", 15)), None)

    assert page is not None
    assert [each.name for each in page.nodes] == ["a", "b", "cpu"]
    assert page.nodes[2].cards == ()


def test_a_node_that_is_not_there_has_no_page() -> None:
    assert inspect(told(pod("p", 4, on="a", card="0")), "a") is None
