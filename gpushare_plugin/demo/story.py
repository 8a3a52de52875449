"""The story: what happens on a node, step by step, each step checked.

Rule 1: a check compares what really happened with what should; none is always true.
Rule 2: what a side "saw" is what that side says: the daemon's log, the kubelet's state.
"""

import asyncio
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gpushare_plugin.demo.peers import Peers
from gpushare_plugin.demo.picture import CardRow, Picture, PodRow
from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.kubelet import (
    ContainerSpec,
    Phase,
    PodSpec,
    PodStatus,
    ResourceState,
    SimKubeletError,
)

RESOURCE = "aliyun.com/gpu-mem"
CARD_UNITS = 15
ALL_UNITS = 2 * CARD_UNITS
RECOVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One pod of the story, and the card that each of its containers should get."""

    name: str
    units: tuple[int, ...]
    cards: tuple[int, ...]


FIRST_PODS = (
    Expected(name="notebook", units=(4,), cards=(0,)),
    Expected(name="trainer", units=(8,), cards=(0,)),
    Expected(name="batch", units=(9,), cards=(1,)),
)
TOO_LARGE = Expected(name="too-large", units=(8,), cards=())
LATER_PODS = (
    Expected(name="small", units=(3,), cards=(0,)),
    Expected(name="pair", units=(4, 2), cards=(1, 1)),
)


@dataclass(slots=True)
class Stage:
    """Where the story is played, and what has happened on it."""

    peers: Peers
    pods: list[PodStatus] = field(default_factory=list)
    lines_shown: int = 0

    async def resource(self) -> ResourceState:
        """Return what the kubelet knows of our resource."""
        return (await self.peers.kubelet.state()).resources[RESOURCE]

    async def log_with(self, *events: str) -> list[str]:
        """Return the daemon's log since the last look, these events only, in short.

        An event that is named several times is waited for as often.
        """
        daemon, begin = self.peers.daemon, self.lines_shown
        for event, count in Counter(events).items():
            await daemon.said(event, after=begin, times=count)
        lines, self.lines_shown = daemon.lines[begin:], len(daemon.lines)
        return [
            " ".join([line.event, *(f"{key}={value}" for key, value in _telling(line.fields))])
            for line in lines
            if line.event in events
        ]

    async def metrics(self) -> str:
        """Return the daemon's metrics, asked over HTTP as Prometheus does."""
        page = await self.peers.daemon.said("status_pages")
        address = f"http://127.0.0.1:{page.fields['port']}/metrics"
        return await asyncio.to_thread(_fetched, address)


def _fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  # our own daemon's
        text: str = answer.read().decode()
    return text


Step = Callable[[Stage, Picture], Awaitable[bool]]


async def tell(stage: Stage, picture: Picture) -> bool:
    """Play all steps; say whether each check held."""
    held = True
    for step in (_register, _place, _refuse, _fill, _restart_kubelet, _fall_ill, _recover, _sum_up):
        try:
            held &= await step(stage, picture)
        except (SimKubeletError, SimulationError) as error:
            picture.checked(f"the step could not be played: {error}", held=False)
            held = False
    picture.the_end(held=held)
    return held


async def _register(stage: Stage, picture: Picture) -> bool:
    picture.step("The daemon starts beside the kubelet", "two Tesla T4 of 15360 MiB, simulated")
    await stage.peers.kubelet.allocatable(RESOURCE, equals=ALL_UNITS, timeout_seconds=15)
    resource = await stage.resource()
    picture.daemon(await stage.log_with("card_shared", "registered", "isolation"))
    picture.kubelet([_counts(resource)])
    cards = {device_id.split("-")[0] for device_id in resource.health}
    return picture.checked(
        f"the kubelet has {ALL_UNITS} units of 1 GiB on 2 cards",
        held=resource.capacity == ALL_UNITS and len(cards) == len((0, 1)),
    )


async def _place(stage: Stage, picture: Picture) -> bool:
    picture.step("Pods come", "binpack: the fullest card that can hold the container")
    return await _admit_all(stage, picture, FIRST_PODS)


async def _refuse(stage: Stage, picture: Picture) -> bool:
    picture.step("A pod that fits on no card", "8 units asked; 3 are free on card 0, 6 on card 1")
    status = await stage.peers.kubelet.admit(_spec(TOO_LARGE))
    picture.daemon(await stage.log_with("allocate_refused"))
    picture.kubelet([f"pod {status.name}: {status.phase}, {status.reason}", status.message])
    told = all(word in status.message for word in ("8 units", "card 0", "card 1", "extender"))
    return picture.checked(
        "it is refused, and told what was asked, what there was, and what to do",
        held=status.phase is Phase.FAILED and told,
    )


async def _fill(stage: Stage, picture: Picture) -> bool:
    picture.step("More pods, one of two containers", "they take what is left, to the last unit")
    return await _admit_all(stage, picture, LATER_PODS)


async def _restart_kubelet(stage: Stage, picture: Picture) -> bool:
    picture.step("The kubelet restarts", "it forgets every plugin and removes every socket")
    await stage.peers.kubelet.restart(gap_seconds=0.3)
    await stage.peers.kubelet.allocatable(RESOURCE, equals=ALL_UNITS, timeout_seconds=15)
    picture.daemon(await stage.log_with("plugin_life_ended", "registered"))
    picture.kubelet([_counts(await stage.resource())])
    state = await stage.peers.kubelet.state()
    running = [pod.name for pod in state.pods if pod.phase is Phase.RUNNING]
    return picture.checked(
        f"registered again; the {len(running)} pods never noticed",
        held=len(running) == len(FIRST_PODS + LATER_PODS),
    )


async def _fall_ill(stage: Stage, picture: Picture) -> bool:
    picture.step("Card 1 falls off the bus", "the driver tells XID 79")
    stage.peers.events.xid(1, 79)
    stage.peers.events.lost(1)
    await stage.peers.kubelet.allocatable(RESOURCE, equals=CARD_UNITS)
    resource = await stage.resource()
    picture.daemon(await stage.log_with("gpu_event", "card_unhealthy"))
    picture.kubelet([_counts(resource)])
    return picture.checked(
        "all units of card 1 are out, and none of card 0",
        held=resource.capacity == ALL_UNITS and resource.allocatable == CARD_UNITS,
    )


async def _recover(stage: Stage, picture: Picture) -> bool:
    picture.step("Card 1 is reset and comes back", "three good probes in a row heal it")
    # At least one probe has found it gone: only a card that was lost has had its reset.
    await asyncio.sleep(1.0)
    stage.peers.events.back(1)
    await stage.peers.kubelet.allocatable(
        RESOURCE, equals=ALL_UNITS, timeout_seconds=RECOVERY_SECONDS
    )
    picture.daemon(await stage.log_with("card_healthy"))
    resource = await stage.resource()
    picture.kubelet([_counts(resource)])
    return picture.checked(
        "its units are back, with no restart of anything", held=resource.allocatable == ALL_UNITS
    )


async def _sum_up(stage: Stage, picture: Picture) -> bool:
    picture.step("Who has what", "the daemon's own metrics, from the kubelet's PodResources")
    metrics = await stage.metrics()
    cards = [
        CardRow(
            card=card,
            model="Tesla T4",
            units=CARD_UNITS,
            allocated=_metric(metrics, "gpushare_card_allocated_units", index=str(card)),
            healthy=_metric(metrics, "gpushare_card_healthy", index=str(card)) == 1,
        )
        for card in (0, 1)
    ]
    pods = [
        PodRow(
            pod=pod.name,
            container=container.name,
            units=int(container.env["ALIYUN_COM_GPU_MEM_CONTAINER"]),
            card=int(container.env["ALIYUN_COM_GPU_MEM_IDX"]),
        )
        for pod in stage.pods
        for container in pod.containers
    ]
    picture.tables(cards, pods)
    by_metrics = sum(card.allocated for card in cards)
    return picture.checked(
        "kubelet, daemon and containers agree on every unit",
        held=by_metrics == sum(pod.units for pod in pods) == ALL_UNITS
        and all(_agrees(metrics, row) for row in pods),
    )


async def _admit_all(stage: Stage, picture: Picture, pods: Sequence[Expected]) -> bool:
    statuses = [await stage.peers.kubelet.admit(_spec(pod)) for pod in pods]
    stage.pods += statuses
    picture.daemon(await stage.log_with(*["allocated" for pod in pods for _ in pod.units]))
    picture.kubelet([_in_short(status) for status in statuses])
    got = [
        tuple(container.env.get("ALIYUN_COM_GPU_MEM_IDX") for container in status.containers)
        for status in statuses
    ]
    wanted = [tuple(str(card) for card in pod.cards) for pod in pods]
    return picture.checked(
        "each container runs on the card that the policy picks, and is told which",
        held=got == wanted and all(status.phase is Phase.RUNNING for status in statuses),
    )


def _spec(pod: Expected) -> PodSpec:
    containers = tuple(
        ContainerSpec(
            name=f"main-{number}" if len(pod.units) > 1 else "main", requests={RESOURCE: units}
        )
        for number, units in enumerate(pod.units, start=1)
    )
    return PodSpec(name=pod.name, uid=pod.name, containers=containers)


def _in_short(status: PodStatus) -> str:
    parts = [
        f"{container.name}: {container.env['ALIYUN_COM_GPU_MEM_CONTAINER']} units,"
        f" NVIDIA_VISIBLE_DEVICES={container.env['NVIDIA_VISIBLE_DEVICES'][:12]}…"
        for container in status.containers
    ]
    return f"pod {status.name} {status.phase}; " + "; ".join(parts)


def _counts(resource: ResourceState) -> str:
    return f"{RESOURCE}: capacity {resource.capacity}, allocatable {resource.allocatable}"


def _telling(fields: dict[str, str]) -> list[tuple[str, str]]:
    """Return the fields that tell the story; what differs from run to run is left out."""
    dull = ("endpoint", "device_prefix", "uuid", "error", "reaction", "cards", "was")
    return [(key, value) for key, value in fields.items() if key not in dull]


def _metric(metrics: str, name: str, **labels: str) -> int:
    """Return the value of the one sample of this name with these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    for line in metrics.splitlines():
        if line.startswith(f"{name}{{") and all(each in line for each in wanted):
            return int(float(line.rsplit(" ", 1)[1]))
    raise SimulationError(f"the daemon has no metric {name} with {' '.join(wanted)}")


def _agrees(metrics: str, row: PodRow) -> bool:
    labels = {"pod": row.pod, "container": row.container}
    return _metric(metrics, "gpushare_container_units", **labels) == row.units
