"""Rows of the calls: Allocate, GetPreferredAllocation, the first message of ListAndWatch.

A hundred pods wait on the node: PodResources lists them, and they hold nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.client import (
    POD_RESOURCES,
    Samples,
    SocketClient,
    Timed,
    allocate_request,
    device_ids,
    in_turns,
    microseconds,
    preferred_request,
)
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.processes import BenchError
from bench.subjects import CARDS, UNITS_A_CARD, Side, admit_pods, daemon, empty

ID_COUNTS = (1, 8, 80)
PREFERRED_UNITS = 8
LIST_CALLS_SHARE = 5
"""A stream takes longer than a call, so there are so many times fewer of them."""
PAUSE_SECONDS = 0.006
"""Between paced calls: over four sides that keeps the daemon below its own 50 Lists a second."""


async def call_rows(plan: Plan) -> list[Row]:
    """Measure the calls."""
    async with (
        daemon() as ours,
        empty() as baseline,
        SocketClient(ours.socket) as our_client,
        SocketClient(baseline.socket) as empty_client,
    ):
        await admit_pods(ours, plan.pods, units=0)
        _, message = await our_client.first_list()
        ids = device_ids(message)
        if len(ids) != CARDS * UNITS_A_CARD:
            raise BenchError(f"{len(ids)} devices, expected {CARDS} times {UNITS_A_CARD}")
        clients = {"ours": our_client, "empty": empty_client}
        rows = await _allocate(plan, clients, ids)
        rows += await _preferred(plan, clients, ids, ours)
        rows += await _first_list(plan, clients, len(message))
    return rows


async def _allocate(plan: Plan, clients: Mapping[str, SocketClient], ids: list[str]) -> list[Row]:
    rows = []
    for count in ID_COUNTS:
        # The first card's, since a container is served by one card.
        request = allocate_request(ids[:count])
        sides = {name: client.timed("Allocate", request) for name, client in clients.items()}
        samples = await in_turns(sides, rounds=plan.rounds, calls=plan.calls)
        name = f"Allocate, {count} ID{'s' if count > 1 else ''}"
        rows += _percentiles(name, samples, p99=Bound(most=2.0, of=Compared.RATIO))
    return rows


async def _preferred(
    plan: Plan, clients: Mapping[str, SocketClient], ids: list[str], ours: Side
) -> list[Row]:
    request = preferred_request(ids, size=PREFERRED_UNITS)
    async with (
        daemon(finds_pods=False) as alone,
        SocketClient(alone.socket) as alone_client,
        SocketClient(ours.pod_resources) as pod_resources,
    ):
        sides: dict[str, Timed] = {
            name: client.timed("GetPreferredAllocation", request)
            for name, client in clients.items()
        }
        sides["no PodResources"] = alone_client.timed("GetPreferredAllocation", request)
        sides["List"] = pod_resources.timed("List", b"", service=POD_RESOURCES)
        before = await _lists(ours)
        samples = await in_turns(
            sides, rounds=plan.rounds, calls=plan.paced_calls, pause_seconds=PAUSE_SECONDS
        )
        after = await _lists(ours)
    calls = plan.rounds * plan.paced_calls + 1
    note = (
        f"{CARDS * UNITS_A_CARD} devices available; for {calls} calls the daemon asked for"
        f" {after.answered - before.answered - calls} Lists, its account's among them;"
        f" the kubelet limited {after.limited - before.limited}"
    )
    rows = _percentiles("GetPreferredAllocation with its List", samples, note=note)
    rows += _percentiles("- of that, the List alone", samples, ours="List")
    rows += _percentiles(
        "- with nobody at the PodResources socket", samples, ours="no PodResources"
    )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    answered: int
    limited: int


async def _lists(side: Side) -> _Lists:
    calls = [call for call in (await side.kubelet.state()).rpcs if call.method == "List"]
    limited = sum(bool(call.error) for call in calls)
    return _Lists(answered=len(calls) - limited, limited=limited)


async def _first_list(
    plan: Plan, clients: Mapping[str, SocketClient], message_bytes: int
) -> list[Row]:
    sides: dict[str, Timed] = {name: client.first_list_seconds for name, client in clients.items()}
    calls = max(1, plan.calls // LIST_CALLS_SHARE)
    samples = await in_turns(sides, rounds=plan.rounds, calls=calls)
    milliseconds = {
        name: [each / 1000 for each in microseconds(rounds, 50)] for name, rounds in samples.items()
    }
    return [
        row(
            "ListAndWatch, first message, later streams, p50",
            "ms",
            milliseconds["ours"],
            milliseconds["empty"],
            bound=Bound(most=1.0, of=Compared.OVER),
            note=f"{CARDS} cards of {UNITS_A_CARD} units, {message_bytes} bytes",
        )
    ]


def _percentiles(
    name: str, samples: Samples, *, ours: str = "ours", p99: Bound | None = None, note: str = ""
) -> list[Row]:
    return [
        row(
            f"{name}, p{percent}",
            "µs",
            microseconds(samples[ours], percent),
            microseconds(samples["empty"], percent),
            bound=p99 if percent == 99 else None,
            note=note if percent == 50 else "",
        )
        for percent in (50, 99)
    ]
