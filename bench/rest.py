"""Rows of the process as such: memory and processor time at rest, memory after many calls.

A hundred pods run on the node and hold 8 units each.
"""

import asyncio
from collections.abc import Mapping

from bench.client import SocketClient, Timed, allocate_request, device_ids
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.subjects import Side, admit_pods, daemon, empty

POD_UNITS = 8
CALLS_AT_ONCE = 8
MOST_RSS_MIB = 60.0
MOST_CPU_PERCENT = 0.2
FLAT_MIB = 2.0
"""What counts as flat: an answer that were kept would show as far more over so many calls."""
FIRST_CALLS_SHARE = 10
"""The first tenth of the calls may still fill caches and pools."""


async def rest_rows(plan: Plan) -> list[Row]:
    """Measure both processes at rest, side by side, and then after the calls."""
    async with daemon() as ours, empty() as baseline:
        await admit_pods(ours, plan.pods, units=POD_UNITS)
        await asyncio.sleep(plan.settle_seconds)
        sides = {"ours": ours, "empty": baseline}
        cpu = await cpu_percent(sides, seconds=plan.rest_seconds)
        rest = {name: side.plugin.memory() for name, side in sides.items()}
        first, last = await _after_calls(ours, baseline, plan)
    calls = f"{plan.flat_calls:,} Allocate calls"
    return [
        row(
            "RSS at rest",
            "MiB",
            [rest["ours"].rss_mib],
            [rest["empty"].rss_mib],
            bound=Bound(most=MOST_RSS_MIB, of=Compared.OURS),
            note=f"private: {rest['ours'].private_mib:.1f}, empty {rest['empty'].private_mib:.1f}",
        ),
        row(
            "Processor at rest",
            "% of a core",
            [cpu["ours"]],
            [cpu["empty"]],
            bound=Bound(most=MOST_CPU_PERCENT, of=Compared.OURS),
            note=(
                f"over {plan.rest_seconds:g} s; the simulated driver's polling of its events file,"
                f" {cpu['polling']:.2f} %, is left out: a real driver's wait costs nothing"
            ),
        ),
        row(
            f"RSS after {calls}",
            "MiB",
            [last["ours"]],
            [last["empty"]],
            bound=Bound(most=MOST_RSS_MIB, of=Compared.OURS),
        ),
        row(
            f"- its growth over the last nine tenths of the {calls}",
            "MiB",
            [last["ours"] - first["ours"]],
            [last["empty"] - first["empty"]],
            bound=Bound(most=FLAT_MIB, of=Compared.OURS),
        ),
    ]


async def cpu_percent(sides: Mapping[str, Side], *, seconds: float) -> dict[str, float]:
    """Return what each side takes of a core, and `polling`: what of ours was left out."""

    def read() -> dict[str, float]:
        # The empty plugin polls nothing, and so has none left out.
        polling = {name: side.plugin.polling_cpu_seconds() for name, side in sides.items()}
        used = {name: side.plugin.cpu_seconds() - polling[name] for name, side in sides.items()}
        return used | {"polling": polling["ours"]}

    before = read()
    await asyncio.sleep(seconds)
    return {name: (after - before[name]) / seconds * 100 for name, after in read().items()}


async def _after_calls(
    ours: Side, baseline: Side, plan: Plan
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the RSS of both after a first part of the calls, and after all."""
    sides = {"ours": ours, "empty": baseline}
    first_calls = plan.flat_calls // FIRST_CALLS_SHARE
    async with SocketClient(ours.socket) as our_client, SocketClient(baseline.socket) as theirs:
        _, message = await our_client.first_list()
        request = allocate_request(device_ids(message)[:POD_UNITS])
        calls = [client.timed("Allocate", request) for client in (our_client, theirs)]
        readings: list[dict[str, float]] = []
        for count in (first_calls, plan.flat_calls - first_calls):
            for call in calls:
                await _many(call, count)
            readings.append({name: side.plugin.memory().rss_mib for name, side in sides.items()})
    return readings[0], readings[1]


async def _many(call: Timed, count: int) -> None:
    async def some() -> None:
        for _ in range(count // CALLS_AT_ONCE):
            await call()

    async with asyncio.TaskGroup() as tasks:
        for number in range(CALLS_AT_ONCE):
            tasks.create_task(some(), name=f"caller {number}")
