"""Rows of the process as such: memory and processor time at rest, memory after many calls.

A hundred pods run on the node and hold 8 units each.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from bench.client import SocketClient, Timed, allocate_request, device_ids
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.probes import PAGES, probed
from bench.processes import Memory
from bench.subjects import Side, admit_pods, daemon, empty

POD_UNITS = 8
CALLS_AT_ONCE = 8
MOST_RSS_MIB = 60.0
MOST_CPU_PERCENT = 0.2
FLAT_MIB = 2.0
"""What counts as flat: an answer that were kept would show as far more over so many calls."""
FIRST_CALLS_SHARE = 10
"""The first tenth of the calls may still fill caches and pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What each side takes at rest: in percent of a core, and in MiB."""

    cpu: Mapping[str, float]
    probed_cpu: Mapping[str, float]
    """While the daemons' pages are asked for as well."""
    memory: Mapping[str, Memory]
    """After that: the pages have been made."""


async def rest_rows(plan: Plan) -> list[Row]:
    """Measure both processes at rest, side by side, and then after the calls."""
    async with daemon() as ours, empty() as baseline:
        await admit_pods(ours, plan.pods, units=POD_UNITS)
        await asyncio.sleep(plan.settle_seconds)
        rest = await at_rest({"ours": ours, "empty": baseline}, seconds=plan.rest_seconds)
        first, last = await _after_calls(ours, baseline, plan)
    calls = f"{plan.flat_calls:,} Allocate calls"
    return [
        *rows_of(rest, plan, where="at rest"),
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


def rows_of(rest: Rest, plan: Plan, *, where: str, rss_note: str = "") -> list[Row]:
    """Return the rows of memory and processor."""
    private = {name: memory.private_mib for name, memory in rest.memory.items()}
    probes = ", ".join(f"{page} every {seconds:g} s" for page, seconds in PAGES)
    return [
        row(
            f"RSS {where}",
            "MiB",
            [rest.memory["ours"].rss_mib],
            [rest.memory["empty"].rss_mib],
            bound=Bound(most=MOST_RSS_MIB, of=Compared.OURS),
            note=f"private: {private['ours']:.1f}, empty {private['empty']:.1f}{rss_note}",
        ),
        row(
            f"Processor {where}",
            "% of a core",
            [rest.cpu["ours"]],
            [rest.cpu["empty"]],
            bound=Bound(most=MOST_CPU_PERCENT, of=Compared.OURS),
            note=f"over {plan.rest_seconds:g} s, all threads, the simulated driver's among them",
        ),
        row(
            f"Processor {where}, probed and scraped",
            "% of a core",
            [rest.probed_cpu["ours"]],
            [rest.probed_cpu["empty"]],
            note=f"over {plan.rest_seconds:g} s; {probes}; nobody asks the empty plugin",
        ),
    ]


async def at_rest(sides: Mapping[str, Side], *, seconds: float) -> Rest:
    """Measure; every side but `empty` is a daemon."""
    cpu = await _cpu_percent(sides, seconds=seconds)
    async with probed([side for name, side in sides.items() if name != "empty"]):
        probed_cpu = await _cpu_percent(sides, seconds=seconds)
    memory = {name: side.plugin.memory() for name, side in sides.items()}
    return Rest(cpu=cpu, probed_cpu=probed_cpu, memory=memory)


async def _cpu_percent(sides: Mapping[str, Side], *, seconds: float) -> dict[str, float]:
    before = {name: side.plugin.cpu_seconds() for name, side in sides.items()}
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    passed = time.perf_counter() - began
    return {
        name: (side.plugin.cpu_seconds() - before[name]) / passed * 100
        for name, side in sides.items()
    }


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
