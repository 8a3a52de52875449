"""The story: what happens on a node, step by step, each step checked.

Rule: a check compares what really happened with what should; none is always true.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gpushare_plugin.demo.peers import PROBE_SECONDS
from gpushare_plugin.demo.picture import CardRow, Picture, PodRow
from gpushare_plugin.demo.stage import INDEX, RESOURCE, Expected, Stage, metric
from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.apiserver import SimApiServerError
from gpushare_plugin.sim.kubelet import Phase, PodStatus, ResourceState, SimKubeletError

CARD_UNITS = 15
ALL_UNITS = 2 * CARD_UNITS
RECOVERY_SECONDS = 10.0

FIRST_PODS = (
    Expected(name="notebook", units=(4,), cards=(0,), chosen=0),
    Expected(name="batch", units=(5,), cards=(1,), chosen=1),
)
TWINS = (
    Expected(name="twin-a", units=(6,), cards=(0,), chosen=0),
    Expected(name="twin-b", units=(6,), cards=(1,), chosen=1),
)
TOO_LARGE = Expected(name="too-large", units=(8,))
LATE = Expected(name="late", units=(5,), cards=(0,), chosen=0)
PAIR = Expected(name="pair", units=(3, 1), cards=(1, 1))

Step = Callable[[Stage, Picture], Awaitable[bool]]


async def tell(stage: Stage, picture: Picture) -> bool:
    """Play all steps; say whether each check held."""
    held = True
    for step in _STEPS:
        try:
            held &= await step(stage, picture)
        except (SimKubeletError, SimApiServerError, SimulationError) as error:
            picture.checked(f"the step could not be played: {error}", held=False)
            held = False
    picture.the_end(held=held)
    return held


async def _register(stage: Stage, picture: Picture) -> bool:
    picture.step("The daemon starts beside the kubelet", "two Tesla T4 of 15360 MiB, simulated")
    await stage.peers.kubelet.allocatable(RESOURCE, equals=ALL_UNITS, timeout_seconds=15)
    await stage.tell_capacity()
    resource = await stage.resource()
    picture.daemon(await stage.log_with("card_shared", "registered", "isolation"))
    picture.kubelet([_counts(resource)])
    cards = {device_id.split("-")[0] for device_id in resource.health}
    return picture.checked(
        f"the kubelet has {ALL_UNITS} units of 1 GiB on 2 cards",
        held=resource.capacity == ALL_UNITS and len(cards) == len((0, 1)),
    )


async def _place(stage: Stage, picture: Picture) -> bool:
    picture.step("Pods come", "an extender chose a card for each and wrote it on the pod")
    return await _admit(stage, picture, FIRST_PODS)


async def _twins(stage: Stage, picture: Picture) -> bool:
    picture.step("Two equal pods, in the other order", "bound a then b, admitted b then a")
    specs = {pod.name: await stage.bind(pod) for pod in TWINS}
    statuses = [await stage.peers.kubelet.admit(specs[pod.name]) for pod in reversed(TWINS)]
    stage.pods += reversed(statuses)
    picture.daemon(await stage.log_with(*["allocated"] * len(TWINS)))
    picture.kubelet([_in_short(status) for status in statuses])
    return picture.checked(
        "each gets the card that was chosen for it, not its twin's",
        held=all(map(_as_expected, reversed(statuses), TWINS)),
    )


async def _refuse(stage: Stage, picture: Picture) -> bool:
    picture.step("A pod that fits on no card", "no extender saw it; 5 and 4 units are free")
    status = await stage.peers.kubelet.admit(await stage.bind(TOO_LARGE))
    await stage.peers.api.set_pod_phase(TOO_LARGE.name, "Failed")
    picture.daemon(await stage.log_with("allocate_refused"))
    picture.kubelet([f"pod {status.name}: {status.phase}, {status.reason}", status.message])
    told = all(word in status.message for word in ("8 units", "card 0", "card 1", "extender"))
    return picture.checked(
        "it is refused, and told what was asked, what there was, and what to do",
        held=status.phase is Phase.FAILED and told,
    )


async def _away(stage: Stage, picture: Picture) -> bool:
    picture.step("The API server goes away", "a pod that was bound before is admitted meanwhile")
    spec = await stage.bind(LATE)
    # The watch has had its time to bring the pod; without it the policy would place it.
    await asyncio.sleep(0.2)
    await stage.peers.api.go_away()
    status = await stage.peers.kubelet.admit(spec)
    stage.pods.append(status)
    picture.daemon(await stage.log_with("allocated"))
    picture.kubelet([_in_short(status)])
    served = picture.checked("it is served all the same", held=_as_expected(status, LATE))
    await stage.peers.api.come_back()
    allocation = await stage.published(LATE.name)
    picture.api([f"back again; pod {LATE.name}: {sum(allocation['main'].values())} units written"])
    return served & picture.checked(
        "what happened is written once the API server is back",
        held=list(allocation["main"].values()) == list(LATE.units),
    )


async def _pair(stage: Stage, picture: Picture) -> bool:
    picture.step("A pod of two containers", "no extender saw it: the node's policy picks the card")
    return await _admit(stage, picture, (PAIR,))


async def _restart_kubelet(stage: Stage, picture: Picture) -> bool:
    picture.step("The kubelet restarts", "it forgets every plugin and removes every socket")
    await stage.peers.kubelet.restart(gap_seconds=0.3)
    await stage.peers.kubelet.allocatable(RESOURCE, equals=ALL_UNITS, timeout_seconds=15)
    # It may notice in two steps: the stream's end, then its socket's removal.
    picture.daemon((await stage.log_with("plugin_life_ended", "registered"))[-1:])
    picture.kubelet([_counts(await stage.resource())])
    state = await stage.peers.kubelet.state()
    running = [pod.name for pod in state.pods if pod.phase is Phase.RUNNING]
    return picture.checked(
        f"registered again; the {len(running)} pods never noticed",
        held=len(running) == len(stage.pods),
    )


async def _fall_ill(stage: Stage, picture: Picture) -> bool:
    picture.step("Card 1 falls off the bus", "the driver tells XID 79")
    stage.peers.events.xid(1, 79)
    await stage.peers.daemon.said("card_unhealthy", after=stage.lines_shown)
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
    # A look must have found it gone: only a card that was lost has had its reset.
    await stage.peers.daemon.said("gpu_left_out")
    await asyncio.sleep(2 * PROBE_SECONDS)
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
    for pod in stage.pods:
        await stage.published(pod.name)
    metrics = await stage.metrics()
    cards = [
        CardRow(
            card=card,
            model="Tesla T4",
            units=CARD_UNITS,
            allocated=metric(metrics, "gpushare_card_allocated_units", index=str(card)),
            healthy=metric(metrics, "gpushare_card_healthy", index=str(card)) == 1,
        )
        for card in (0, 1)
    ]
    rows = [
        PodRow(
            pod=pod.name,
            container=container.name,
            units=int(container.env["ALIYUN_COM_GPU_MEM_CONTAINER"]),
            card=int(container.env[INDEX]),
        )
        for pod in stage.pods
        for container in pod.containers
    ]
    picture.tables(cards, rows)
    agreed = [await _agrees(stage, metrics, row) for row in rows]
    by_metrics = sum(card.allocated for card in cards)
    return picture.checked(
        "kubelet, daemon, containers and the API server agree on every unit",
        held=by_metrics == sum(row.units for row in rows) == ALL_UNITS and all(agreed),
    )


_STEPS: Sequence[Step] = (
    _register,
    _place,
    _twins,
    _refuse,
    _away,
    _pair,
    _restart_kubelet,
    _fall_ill,
    _recover,
    _sum_up,
)


async def _admit(stage: Stage, picture: Picture, pods: Sequence[Expected]) -> bool:
    statuses = [await stage.peers.kubelet.admit(await stage.bind(pod)) for pod in pods]
    stage.pods += statuses
    picture.daemon(await stage.log_with(*["allocated" for pod in pods for _ in pod.units]))
    picture.kubelet([_in_short(status) for status in statuses])
    return picture.checked(
        "each container runs on the right card, and is told which",
        held=all(map(_as_expected, statuses, pods)),
    )


def _as_expected(status: PodStatus, pod: Expected) -> bool:
    got = [container.env.get(INDEX) for container in status.containers]
    return status.phase is Phase.RUNNING and got == [str(card) for card in pod.cards]


async def _agrees(stage: Stage, metrics: str, row: PodRow) -> bool:
    labels = {"pod": row.pod, "container": row.container}
    allocation = (await stage.published(row.pod))[row.container]
    annotated = (await stage.annotations(row.pod))[INDEX]
    return (
        metric(metrics, "gpushare_container_units", **labels) == row.units
        and list(allocation.values()) == [row.units]
        and annotated == str(row.card)
    )


def _in_short(status: PodStatus) -> str:
    parts = [
        f"{container.name}: {container.env['ALIYUN_COM_GPU_MEM_CONTAINER']} units,"
        f" NVIDIA_VISIBLE_DEVICES={container.env['NVIDIA_VISIBLE_DEVICES'][:12]}…"
        for container in status.containers
    ]
    return f"pod {status.name} {status.phase}; " + "; ".join(parts)


def _counts(resource: ResourceState) -> str:
    return f"{RESOURCE}: capacity {resource.capacity}, allocatable {resource.allocatable}"
