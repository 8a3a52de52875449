"""Rows of the daemon in a cluster: its calls while the API server is slow, and it at rest.

A hundred pods run on the node and hold 8 units each, thousands run elsewhere, and one
more waits on the node for the card that an extender chose. Beside it in the same rounds:
the same daemon without a cluster, on a node with the same pods, and the empty plugin.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.client import (
    Samples,
    SocketClient,
    allocate_request,
    device_ids,
    in_turns,
    microseconds,
    preferred_request,
)
from bench.cluster import (
    CHOSEN_CARD,
    Cluster,
    churn,
    cluster,
    others,
    pod_waits,
    pods_on_node,
    waiting_pod_is_told,
)
from bench.figures import Bound, Compared, Row, row
from bench.late import late_rows
from bench.plan import Plan
from bench.processes import BenchError
from bench.rest import POD_UNITS, at_rest, rows_of
from bench.subjects import Side, admit_pods, daemon, empty
from bench.watches import watch_rows
from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as pb
from gpushare_plugin.sim.apiserver import Fault, FaultKind

SLOW_SECONDS = 0.2
AS_WITHOUT = Bound(most=1.25, of=Compared.RATIO)
"""What counts as no slower than without a cluster: the rounds of one daemon differ as much."""
PAUSE_SECONDS = 0.008
"""Between paced calls: over three sides that keeps each daemon below its own 50 Lists a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    cluster: Cluster
    ours: Side
    alone: Side
    empty: Side


async def cluster_rows(plan: Plan) -> list[Row]:
    """Measure the daemon in a cluster, and what it takes in from there."""
    async with _sides(plan, in_pod=False) as sides:
        by_file_mib = sides.ours.plugin.memory().rss_mib
        fault = Fault(kind=FaultKind.SLOW, seconds=SLOW_SECONDS)
        await sides.cluster.api.inject(fault)
        rows = await _call_rows(plan, sides)
    async with _sides(plan, in_pod=True) as sides:
        rows += await _rest_rows(plan, sides, by_file_mib=by_file_mib)
    return rows + await watch_rows(plan)


@asynccontextmanager
async def _sides(plan: Plan, *, in_pod: bool) -> AsyncIterator[_Sides]:
    """Start all; `in_pod`: the daemon reaches the cluster as in a pod, by no kubeconfig file."""
    async with (
        cluster() as found,
        daemon(reach=found.account if in_pod else found.kubeconfig) as ours,
        daemon() as alone,
        empty() as baseline,
    ):
        await others(found.api, plan.cluster_pods - plan.pods)
        await pods_on_node(found.api, ours, plan.pods, units=POD_UNITS)
        await admit_pods(alone, plan.pods, units=POD_UNITS)
        await asyncio.sleep(plan.settle_seconds)
        yield _Sides(cluster=found, ours=ours, alone=alone, empty=baseline)


# -------------------------------------------------------------------------- calls


async def _call_rows(plan: Plan, sides: _Sides) -> list[Row]:
    await pod_waits(sides.ours)
    await pod_waits(sides.alone)
    async with (
        SocketClient(sides.ours.socket) as our_client,
        SocketClient(sides.alone.socket) as alone_client,
        SocketClient(sides.empty.socket) as empty_client,
        churn(sides.cluster.api, plan.pods),
    ):
        clients = {"ours": our_client, "alone": alone_client, "empty": empty_client}
        free = await _free_ids(our_client, sides.ours)
        late = await late_rows(plan, our_client, empty_client, free)
        await waiting_pod_is_told(sides.cluster.api, units=POD_UNITS)
        asked = (await sides.cluster.api.state()).calls
        request = allocate_request(free[-POD_UNITS:])
        allocate = await in_turns(
            {name: client.timed("Allocate", request) for name, client in clients.items()},
            rounds=plan.rounds,
            calls=plan.calls,
        )
        request = preferred_request(free, size=POD_UNITS)
        await _check_chosen(our_client, request, chosen=set(free[-1:]))
        preferred = await in_turns(
            {name: each.timed("GetPreferredAllocation", request) for name, each in clients.items()},
            rounds=plan.rounds,
            calls=plan.paced_calls,
            pause_seconds=PAUSE_SECONDS,
        )
        asked = (await sides.cluster.api.state()).calls - asked
    pods = (
        f"{plan.pods} pods of {POD_UNITS} units on the node, {plan.cluster_pods:,} in the cluster,"
        f" each call to the API server takes {SLOW_SECONDS * 1e3:.0f} ms; while all these calls"
        f" were timed, the daemon made {asked} to it"
    )
    return [
        *_percentiles(f"Allocate, {POD_UNITS} IDs, slow API server", allocate, note=pods),
        *_percentiles(
            "GetPreferredAllocation, slow API server",
            preferred,
            note=f"{len(free)} devices available, and a pod that waits for card {CHOSEN_CARD}",
        ),
        *late,
    ]


async def _free_ids(client: SocketClient, side: Side) -> list[str]:
    _, message = await client.first_list()
    held = {
        each
        for pod in (await side.kubelet.state()).pods
        for container in pod.containers
        for ids in container.devices.values()
        for each in ids
    }
    return [each for each in device_ids(message) if each not in held]


async def _check_chosen(client: SocketClient, request: bytes, *, chosen: set[str]) -> None:
    """Raise BenchError unless the daemon knows whose call it is: else it would do less."""
    answer = pb.PreferredAllocationResponse.FromString(
        await client.answer("GetPreferredAllocation", request)
    )
    (card,) = {each.rpartition("-")[0] for each in chosen}
    found = {each.rpartition("-")[0] for each in answer.container_responses[0].deviceIDs}
    if found != {card}:
        raise BenchError(f"the devices of {card} are the chosen ones, and {found} were proposed")


def _percentiles(name: str, samples: Samples, *, note: str) -> list[Row]:
    rows = []
    for percent in (50, 99):
        figures = {side: microseconds(rounds, percent) for side, rounds in samples.items()}
        rows += [
            row(
                f"{name}, p{percent}",
                "µs",
                figures["ours"],
                figures["empty"],
                note=note if percent == 50 else "",
            ),
            row(
                f"- the daemon without a cluster, p{percent}",
                "µs",
                figures["alone"],
                figures["empty"],
            ),
            row(
                f"- the first beside the second, p{percent}",
                "µs",
                figures["ours"],
                figures["alone"],
                baseline_is="daemon without a cluster",
                bound=AS_WITHOUT if percent == 99 else None,
            ),
        ]
    return rows


# --------------------------------------------------------------------------- rest


async def _rest_rows(plan: Plan, sides: _Sides, *, by_file_mib: float) -> list[Row]:
    measured = {"ours": sides.ours, "alone": sides.alone, "empty": sides.empty}
    rest = await at_rest(measured, seconds=plan.rest_seconds)
    alone = (
        f"; {rest.memory['alone'].rss_mib:.1f} without a cluster, {by_file_mib:.1f} with a"
        " kubeconfig file, which loads the library kubernetes"
    )
    return rows_of(rest, plan, where="at rest, in a cluster", rss_note=alone)
