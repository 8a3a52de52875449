"""Rows of a pod whose watch event is late: the kubelet asks, and the API server says nothing yet.

The call waits for the event, and goes on without it after half a second. The kubelet makes
no other admission meanwhile, whatever the plugin does; what it may call is Allocate for a
container that starts again, or for the other resource.
"""

import asyncio

from bench.client import SocketClient, allocate_request, in_turns, microseconds, preferred_request
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.rest import POD_UNITS

MOST_LATE_MS = 600.0
"""Half a second for the event, a tenth for PodResources."""


async def late_rows(
    plan: Plan, ours: SocketClient, empty: SocketClient, free: list[str]
) -> list[Row]:
    """Measure such calls, and others meanwhile; the only pod that waits is not known."""
    preferred = preferred_request(free, size=POD_UNITS)
    calls = {
        "ours": ours.timed("GetPreferredAllocation", preferred),
        "empty": empty.timed("GetPreferredAllocation", preferred),
    }
    late = await in_turns(calls, rounds=plan.rounds, calls=plan.late_calls, pause_seconds=0.01)
    allocate = allocate_request(free[-POD_UNITS:])
    others = {
        "ours": ours.timed("Allocate", allocate),
        "empty": empty.timed("Allocate", allocate),
    }

    async def call_again_and_again() -> None:
        while True:
            await calls["ours"]()

    waiting = asyncio.create_task(call_again_and_again(), name="a call that waits")
    try:
        meanwhile = await in_turns(others, rounds=plan.rounds, calls=plan.calls)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    milliseconds = {
        side: [each / 1000 for each in microseconds(rounds, 99)] for side, rounds in late.items()
    }
    return [
        row(
            "GetPreferredAllocation for a pod that the watch never tells of, p99",
            "ms",
            milliseconds["ours"],
            milliseconds["empty"],
            bound=Bound(most=MOST_LATE_MS, of=Compared.OURS),
        ),
        *(
            row(
                f"- Allocate, {POD_UNITS} IDs, while such a call waits, p{percent}",
                "µs",
                microseconds(meanwhile["ours"], percent),
                microseconds(meanwhile["empty"], percent),
                bound=Bound(most=2.0, of=Compared.RATIO) if percent == 99 else None,
            )
            for percent in (50, 99)
        ),
    ]
