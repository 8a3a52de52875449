"""What a pod may not ask of compute, and in which words it is told."""

import pytest

from gpushare_plugin.core.card_count import GPU_COUNT
from gpushare_plugin.core.compute import cores_over_cards, cores_without_memory
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.pods import Container, ContainerKind, Pod

MEMORY, CORES = ALIYUN.memory_resource, ALIYUN.core_resource


def asking(*cores: int, count: str | None = None, memory: int = 4) -> Pod:
    return Pod(
        namespace="default",
        name="a",
        uid="uid-a",
        containers=tuple(
            Container(name=f"c{n}", kind=ContainerKind.MAIN, requests={MEMORY: memory, CORES: each})
            for n, each in enumerate(cores)
        ),
        annotations={} if count is None else {GPU_COUNT: count},
    )


@pytest.mark.parametrize(
    "pod",
    [
        asking(100),
        asking(100, 100),
        asking(200, count="2"),
        asking(100, count="x"),
        asking(0),
    ],
)
def test_100_cores_of_each_card_may_be_asked_for(pod: Pod) -> None:
    assert cores_over_cards(pod, ALIYUN, node_cards=2) is None


@pytest.mark.parametrize(
    ("pod", "container", "cores", "most"),
    [
        pytest.param(asking(20, 101), "c1", 101, 100, id="one card"),
        pytest.param(asking(201, count="2"), "c0", 201, 200, id="two cards"),
        pytest.param(asking(150, count="3"), "c0", 150, 100, id="a count that is not followed"),
        pytest.param(asking(150, count="2", memory=5), "c0", 150, 100, id="indivisible units"),
    ],
)
def test_more_are_told_with_container_cores_and_100_a_card(
    pod: Pod, container: str, cores: int, most: int
) -> None:
    text = cores_over_cards(pod, ALIYUN, node_cards=2)

    assert text is not None
    assert f"pod default/a, container {container} asks for {cores} {CORES}" in text
    assert "a card has 100" in text
    assert f"ask for at most {most}" in text


def test_of_very_many_containers_without_memory_the_first_few_are_named() -> None:
    """The text stands beside each of 5,000 nodes."""
    text = cores_without_memory(asking(*[1] * 3000, memory=0), ALIYUN)

    assert text is not None
    assert "container c0, c1, c2, c3 and 2996 more asks for" in text
