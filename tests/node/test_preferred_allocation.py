"""GetPreferredAllocation: one card for a container, and an answer whatever happens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import Phase
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, SECOND, SECOND_TAG, Node, node_in, pod
from tests.node.plugin_client import Plugin, ids, plugin_at

ALL_OF_FIRST, ALL_OF_SECOND = ids(FIRST_TAG, *range(15)), ids(SECOND_TAG, *range(15))


@asynccontextmanager
async def _plugin(
    folder: Path, log: EventLog, **settings: str
) -> AsyncIterator[tuple[Node, Plugin]]:
    async with node_in(folder, log, **settings) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            yield node, plugin


def _tags(device_ids: list[str]) -> set[str]:
    return {device_id.partition("-")[0] for device_id in device_ids}


@pytest.mark.parametrize(("policy", "tag"), [("binpack", SECOND_TAG), ("spread", FIRST_TAG)])
async def test_the_policy_chooses_the_card(
    short_path: Path, log: EventLog, policy: str, tag: str
) -> None:
    async with _plugin(short_path, log, policy=policy) as (_, plugin):
        available = [*ALL_OF_FIRST[:12], *ALL_OF_SECOND[:5]]

        chosen = await plugin.preferred(available=available, size=4)

    assert len(set(chosen)) == 4
    assert _tags(chosen) == {tag}


async def test_a_container_goes_to_the_only_card_that_can_hold_it(
    short_path: Path, log: EventLog
) -> None:
    async with _plugin(short_path, log) as (_, plugin):
        available = [*ALL_OF_FIRST[:3], *ALL_OF_SECOND[:9]]

        chosen = await plugin.preferred(available=available, size=8)

    assert _tags(chosen) == {SECOND_TAG}


async def test_what_must_be_included_comes_first_and_ties_the_container_to_its_card(
    short_path: Path, log: EventLog
) -> None:
    async with _plugin(short_path, log) as (_, plugin):
        must = ids(FIRST_TAG, 7, 8)
        available = [*ALL_OF_FIRST, *ALL_OF_SECOND[:4]]

        chosen = await plugin.preferred(available=available, must=must, size=4)

    assert set(must) <= set(chosen)
    assert len(set(chosen)) == 4
    assert _tags(chosen) == {FIRST_TAG}


async def test_a_main_container_keeps_the_card_of_its_init_container(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        await node.kubelet.admit(pod("fills-first", 12))

        status = await node.kubelet.admit(pod("with-init", 6, init=(4,)))

    init, main = status.containers
    assert init.env["NVIDIA_VISIBLE_DEVICES"] == main.env["NVIDIA_VISIBLE_DEVICES"] == SECOND


async def test_only_what_is_offered_is_proposed(short_path: Path, log: EventLog) -> None:
    async with _plugin(short_path, log) as (_, plugin):
        available = ids(FIRST_TAG, 2, 9, 14)

        chosen = await plugin.preferred(available=available, size=3)

    assert sorted(chosen) == sorted(available)


@pytest.mark.parametrize(
    "available",
    [
        pytest.param([*ids(FIRST_TAG, 0, 1), *ids(SECOND_TAG, 0)], id="over two cards"),
        pytest.param([], id="nothing"),
        pytest.param(["GPU-1234-_-0", "junk", "", "ffffffff-0"], id="nothing of ours"),
        pytest.param(ids(FIRST_TAG, 400), id="a unit that is not there"),
    ],
)
async def test_a_request_that_no_card_can_hold_gets_an_answer_and_no_error(
    short_path: Path, log: EventLog, available: list[str]
) -> None:
    async with _plugin(short_path, log) as (_, plugin):
        chosen = await plugin.preferred(available=available, size=3)

    assert set(chosen) <= set(available)


async def test_binpack_fills_one_card_before_it_opens_the_next(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()

        statuses = [await node.kubelet.admit(pod(f"p{n}", 5)) for n in range(6)]

    seen = [status.container("c0").env["NVIDIA_VISIBLE_DEVICES"] for status in statuses]
    assert seen == [FIRST] * 3 + [SECOND] * 3


async def test_spread_takes_the_cards_in_turn(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, policy="spread") as node:
        await node.ready()

        statuses = [await node.kubelet.admit(pod(f"p{n}", 5)) for n in range(6)]

    seen = [status.container("c0").env["NVIDIA_VISIBLE_DEVICES"] for status in statuses]
    assert seen == [FIRST, SECOND] * 3


async def test_a_card_that_is_full_is_free_again_when_its_pods_have_ended(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        for name in ("a", "b"):
            await node.kubelet.admit(pod(name, 15))
        await node.kubelet.finish_pod("uid-a", Phase.SUCCEEDED)
        await node.kubelet.delete_pod("uid-b")

        statuses = [await node.kubelet.admit(pod(name, 15)) for name in ("c", "d")]

    assert [status.phase for status in statuses] == [Phase.RUNNING] * 2
