"""The story: what happens on a small cluster, step by step, each step checked.

Rule: a check compares what really happened with what should; none is always true.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from gpushare_plugin.demo import mishaps, placing
from gpushare_plugin.demo.peers import MEMORY as RESOURCE
from gpushare_plugin.demo.picture import CardRow, Picture, PodRow
from gpushare_plugin.demo.stage import ALL_UNITS, CARD_UNITS, INDEX, Stage, counts, metric
from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.apiserver import SimApiServerError
from gpushare_plugin.sim.kubelet import SimKubeletError
from gpushare_plugin.sim.scheduler import SimSchedulerError

Step = Callable[[Stage, Picture], Awaitable[bool]]

_PEERS_ERRORS = (SimKubeletError, SimApiServerError, SimSchedulerError, SimulationError)


async def tell(stage: Stage, picture: Picture) -> bool:
    """Play all steps; say whether each check held."""
    held = True
    for step in _STEPS:
        try:
            held &= await step(stage, picture)
        except _PEERS_ERRORS as error:
            picture.checked(f"the step could not be played: {error}", held=False)
            held = False
    picture.the_end(held=held)
    return held


async def _register(stage: Stage, picture: Picture) -> bool:
    picture.step("The daemon starts beside the kubelet", "two Tesla T4 of 15360 MiB, simulated")
    await stage.peers.kubelet.allocatable(RESOURCE, equals=ALL_UNITS, timeout_seconds=15)
    await stage.tell_capacity()
    resource = await stage.resource()
    picture.daemon(await stage.peers.daemon.news("card_shared", "registered", "isolation"))
    picture.kubelet([counts(resource)])
    cards = {device_id.split("-")[0] for device_id in resource.health}
    return picture.checked(
        f"the kubelet has {ALL_UNITS} units of 1 GiB on 2 cards",
        held=resource.capacity == ALL_UNITS and len(cards) == len((0, 1)),
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
    counted = await stage.ledger()
    by_metrics = sum(card.allocated for card in cards)
    return picture.checked(
        "kubelet, daemon, containers, API server and extender agree on every unit",
        held=by_metrics == sum(row.units for row in rows) == ALL_UNITS
        and all(agreed)
        and counted == _by_pod(rows),
    )


async def _agrees(stage: Stage, metrics: str, row: PodRow) -> bool:
    labels = {"pod": row.pod, "container": row.container}
    allocation = (await stage.published(row.pod))[row.container]
    annotated = (await stage.annotations(row.pod))[INDEX]
    return (
        metric(metrics, "gpushare_container_units", **labels) == row.units
        and list(allocation.values()) == [row.units]
        and annotated == str(row.card)
    )


def _by_pod(rows: Iterable[PodRow]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for row in rows:
        on = found.setdefault(row.pod, {})
        on[row.card] = on.get(row.card, 0) + row.units
    return found


_STEPS: Sequence[Step] = (
    _register,
    placing.place,
    placing.twins,
    placing.too_large,
    placing.away,
    placing.pair,
    mishaps.restart_kubelet,
    mishaps.fall_ill,
    mishaps.recover,
    _sum_up,
)
