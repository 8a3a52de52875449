"""The middle of the story: what goes wrong on a node, and comes right again."""

import asyncio

from gpushare_plugin.demo.peers import MEMORY as RESOURCE
from gpushare_plugin.demo.peers import PROBE_SECONDS
from gpushare_plugin.demo.picture import Picture
from gpushare_plugin.demo.stage import ALL_UNITS, CARD_UNITS, Stage, counts
from gpushare_plugin.sim.kubelet import Phase

RECOVERY_SECONDS = 10.0


async def restart_kubelet(stage: Stage, picture: Picture) -> bool:
    """The kubelet restarts under the daemon, and under the pods."""
    picture.step("The kubelet restarts", "it forgets every plugin and removes every socket")
    await stage.peers.kubelet.restart(gap_seconds=0.3)
    await stage.peers.kubelet.allocatable(RESOURCE, equals=ALL_UNITS, timeout_seconds=15)
    # It may notice in two steps: the stream's end, then its socket's removal.
    picture.daemon((await stage.peers.daemon.news("plugin_life_ended", "registered"))[-1:])
    picture.kubelet([counts(await stage.resource())])
    state = await stage.peers.kubelet.state()
    running = [pod.name for pod in state.pods if pod.phase is Phase.RUNNING]
    return picture.checked(
        f"registered again; the {len(running)} pods never noticed",
        held=len(running) == len(stage.pods),
    )


async def fall_ill(stage: Stage, picture: Picture) -> bool:
    """A card falls ill, and what it had is not given out any more."""
    picture.step("Card 1 falls off the bus", "the driver tells XID 79")
    stage.peers.events.xid(1, 79)
    await stage.peers.daemon.said("card_unhealthy", after=stage.peers.daemon.shown)
    stage.peers.events.lost(1)
    await stage.peers.kubelet.allocatable(RESOURCE, equals=CARD_UNITS)
    resource = await stage.resource()
    picture.daemon(await stage.peers.daemon.news("gpu_event", "card_unhealthy"))
    picture.kubelet([counts(resource)])
    return picture.checked(
        "all units of card 1 are out, and none of card 0",
        held=resource.capacity == ALL_UNITS and resource.allocatable == CARD_UNITS,
    )


async def recover(stage: Stage, picture: Picture) -> bool:
    """The card gets well again."""
    picture.step("Card 1 is reset and comes back", "three good probes in a row heal it")
    # A look must have found it gone: only a card that was lost has had its reset.
    await stage.peers.daemon.said("gpu_left_out")
    await asyncio.sleep(2 * PROBE_SECONDS)
    stage.peers.events.back(1)
    await stage.peers.kubelet.allocatable(
        RESOURCE, equals=ALL_UNITS, timeout_seconds=RECOVERY_SECONDS
    )
    picture.daemon(await stage.peers.daemon.news("card_healthy"))
    resource = await stage.resource()
    picture.kubelet([counts(resource)])
    return picture.checked(
        "its units are back, with no restart of anything", held=resource.allocatable == ALL_UNITS
    )
