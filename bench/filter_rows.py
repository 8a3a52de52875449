"""Rows of the verb filter: our extender and the Go peer, asked the same in the same rounds.

Rule: the peer's nodes never change, and it locks nothing; what changes costs us alone.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle

from bench.client import Samples, Timed, in_turns, microseconds
from bench.cluster import Cluster
from bench.extender_cluster import INDEX, Scale, names_bodies, nodes_body, small_pod
from bench.extender_process import PREFIX, Extender
from bench.figures import Bound, Compared, Row, row
from bench.go_peer import GO_PEER, GoPeer
from bench.http_client import HttpClient, post_request
from bench.plan import Plan
from bench.processes import BenchError

BOUNDS = {50: Bound(most=0.35, of=Compared.RATIO), 99: Bound(most=0.7, of=Compared.RATIO)}
BODIES = 64
"""Far more than the extender remembers, so that no order of names comes again in time."""
SETTLE_SECONDS = 0.005
"""Left to the watch to tell of a change, before the call that is timed."""
OURS = "ours"

Change = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One way to ask."""

    name: str
    requests: Sequence[bytes]
    calls: int
    changes: bool = False
    is_bounded: bool = True


async def filter_rows(
    plan: Plan, cluster: Cluster, ours: Extender, peer: GoPeer, scale: Scale
) -> list[Row]:
    """Measure filter by names, and with whole Node objects."""
    rows: list[Row] = []
    async with _clients(ours, peer) as clients:
        for asked in _ways(plan, scale):
            _check(clients, asked.requests[0], scale)
            change = _changing(cluster, scale) if asked.changes else None
            sides = {
                name: _timed(client, asked.requests, change) for name, client in clients.items()
            }
            samples = await in_turns(sides, rounds=plan.rounds, calls=asked.calls)
            rows += _percentiles(asked, samples, peer)
    return rows


def _ways(plan: Plan, scale: Scale) -> list[_Asked]:
    names = scale.names()
    same = _requests(names_bodies(names, BODIES, same_list=True))
    other = _requests(names_bodies(names, BODIES, same_list=False))
    whole = _requests([nodes_body(names)])
    few = plan.changed_filter_calls
    return [
        _Asked(
            name=f"Filter, {len(names):,} names, the same list",
            requests=same,
            calls=plan.filter_calls,
        ),
        _Asked(name="- in another order each time", requests=other, calls=plan.filter_calls),
        _Asked(
            name="- the same list, a node changes before each call",
            requests=same,
            calls=few,
            changes=True,
        ),
        _Asked(
            name="- in another order, and a node changes", requests=other, calls=few, changes=True
        ),
        _Asked(
            name=f"Filter, {len(names):,} whole Node objects",
            requests=whole,
            calls=plan.whole_filter_calls,
            is_bounded=False,
        ),
    ]


@asynccontextmanager
async def _clients(ours: Extender, peer: GoPeer) -> AsyncIterator[Mapping[str, HttpClient]]:
    with ExitStack() as stack:
        clients = {OURS: stack.enter_context(HttpClient(ours.address))}
        if peer.address:
            clients[GO_PEER] = stack.enter_context(HttpClient(peer.address))
        yield clients


def _requests(bodies: Sequence[bytes]) -> list[bytes]:
    return [post_request(f"{PREFIX}/filter", body) for body in bodies]


def _timed(client: HttpClient, requests: Sequence[bytes], change: Change | None) -> Timed:
    following = cycle(requests)

    async def once() -> float:
        if change is not None:
            await change()
        return client.seconds(next(following))

    return once


def _changing(cluster: Cluster, scale: Scale) -> Change:
    """Return what moves a pod to another card of its node, of another node each time."""
    pods = cycle(
        (small_pod(number), {INDEX: card})
        for card in ("7", "0")
        for number in range(scale.full, scale.nodes)
    )

    async def change() -> None:
        name, annotations = next(pods)
        await cluster.api.patch("pods", name, {"metadata": {"annotations": annotations}})
        await asyncio.sleep(SETTLE_SECONDS)

    return change


def _check(clients: Mapping[str, HttpClient], request: bytes, scale: Scale) -> None:
    """Raise BenchError unless both sides find the same nodes fit, and these are the right ones."""
    right = {name for name, free in scale.largest_free().items() if free}
    for side, client in clients.items():
        status, body = client.answer(request)
        if status != 200:
            raise BenchError(f"{side} answers filter with status {status}: {body[:400]!r}")
        answer = json.loads(body)
        if answer["Error"]:
            raise BenchError(f"{side} answers filter with {answer['Error']}")
        fitting = answer["NodeNames"]
        if answer["Nodes"] is not None:
            fitting = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
        if set(fitting) != right or len(answer["FailedNodes"]) != scale.full:
            raise BenchError(
                f"{side} finds {len(fitting)} nodes fit and {len(answer['FailedNodes'])} not,"
                f" expected {len(right)} and {scale.full}: {body[-400:]!r}"
            )


def _percentiles(asked: _Asked, samples: Samples, peer: GoPeer) -> list[Row]:
    kib = len(asked.requests[0]) / 1024
    note = f"{kib:,.0f} KiB a request"
    if peer.absent:
        note += f"; without the Go peer: {peer.absent}"
    rows = []
    for percent in (50, 99):
        figures = {
            side: [each / 1e3 for each in microseconds(rounds, percent)]
            for side, rounds in samples.items()
        }
        rows.append(
            row(
                f"{asked.name}, p{percent}",
                "ms",
                figures[OURS],
                figures.get(GO_PEER),
                baseline_is=GO_PEER,
                bound=BOUNDS[percent] if asked.is_bounded else None,
                note=note if percent == 50 else "",
            )
        )
    return rows
