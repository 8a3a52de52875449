"""Two hundred pods of random shapes come and go over six nodes; whoever is killed comes back."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.e2e.quiet import quiet
from tests.e2e.six_nodes import SixNodes, six_nodes
from tests.e2e.workload import PodPlan, plans, whole_cards

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SEED = 20
PODS = 200
WAVES = 6
KILL_EXTENDER_IN, KILL_DAEMON_IN = 2, 4
KILLED = "gpu-c"


async def test_every_side_agrees_at_every_quiet_moment_and_no_card_holds_too_much(
    short_path: Path,
) -> None:
    rng = Random(SEED)  # noqa: S311  # the same pods each time, not a secret
    async with six_nodes(short_path, seed=SEED) as cluster:
        last = whole_cards([units for each in cluster.cards.values() for units in each.units])
        waited = 0
        for number, wave in enumerate(_waves(plans(rng, PODS - len(last)))):
            half = len(wave) // 2
            await _come_and_go(cluster, rng, wave[:half])
            await _kill(cluster, number)
            await _come_and_go(cluster, rng, wave[half:])
            await _bring_back(cluster, number)
            await quiet(cluster)
            waited += len(cluster.waiting())
            _check_refusals(cluster, {KILLED} if number >= KILL_DAEMON_IN else set())

        await _empty(cluster)
        assert all(not page["usedGPU"] for page in await quiet(cluster))
        for plan in last:
            await cluster.create(plan)
        pages = await quiet(cluster)

    # Each card takes a pod of its own size: nothing of the earlier ones is left anywhere.
    assert all(page["usedGPU"] == page["totalGPU"] for page in pages)
    assert waited
    assert not cluster.watch.overcommitted
    assert not cluster.watch.moved or cluster.slow_nodes()


def _waves(made: list[PodPlan]) -> list[list[PodPlan]]:
    return [made[number::WAVES] for number in range(WAVES)]


async def _come_and_go(cluster: SixNodes, rng: Random, wave: list[PodPlan]) -> None:
    """Create pods one by one, and let others go meanwhile."""
    for plan in wave:
        await cluster.create(plan)
        names = cluster.names()
        if len(names) > 40 and rng.random() < 0.8:
            await cluster.delete(rng.choice(names))
        await asyncio.sleep(0.01)


async def _kill(cluster: SixNodes, number: int) -> None:
    if number == KILL_EXTENDER_IN:
        await cluster.kill_extender()
    if number == KILL_DAEMON_IN:
        await cluster.kill_daemon(KILLED)
        await cluster.until_daemon(KILLED, serves=False)


async def _bring_back(cluster: SixNodes, number: int) -> None:
    if number == KILL_EXTENDER_IN:
        await cluster.start_extender()
    if number == KILL_DAEMON_IN:
        await cluster.start_daemon(KILLED)
        await cluster.until_daemon(KILLED, serves=True)


def _check_refusals(cluster: SixNodes, killed: set[str]) -> None:
    """Only a kubelet whose plugin was killed refuses pods: those that were bound just before."""
    refused = {node_name for node_name, _ in cluster.driver.rejected}
    assert refused <= killed | cluster.slow_nodes(), cluster.driver.rejected


async def _empty(cluster: SixNodes) -> None:
    for name in cluster.names():
        await cluster.delete(name)
