"""Rows of the verb bind. Beside it: the same Binding sent to the API server by this process.

Rule: the simulated API server is slow Python and the limit of both; ours is the difference.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

from bench.client import Timed, in_turns, microseconds
from bench.cluster import TOKEN, Cluster
from bench.extender_cluster import POD_UNITS, Scale, node_name, waiting_pod
from bench.extender_process import PREFIX, Extender
from bench.figures import Bound, Compared, Row, row
from bench.http_client import HttpClient, post_request
from bench.plan import Plan
from bench.processes import BenchError
from bench.subjects import UNITS_A_CARD

OWN_SHARE_MS = 1.0
CALLERS = 8
OURS = "ours"
DIRECTLY = "the Binding alone"
WAITING = "waits-{n}"
FIRST = 100_000
CARD = 6
"""What the Binding alone says of the card; nobody reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Of each round: Bindings a second by side, and processor time of one call in ms."""

    per_second: Mapping[str, list[float]]
    extender_ms: list[float]
    server_ms: list[float]


class _Side:
    """One way to bind, each time another pod."""

    def __init__(self, name: str, cluster: Cluster, ours: Extender, scale: Scale) -> None:
        self.is_ours = name == OURS
        self._cluster = cluster
        self._ours = ours
        self._scale = scale
        self._numbers: Iterator[int] = iter(())

    def take(self, numbers: range) -> None:
        """Bind these pods from now on."""
        self._numbers = iter(numbers)

    def client(self) -> HttpClient:
        """Return a connection to whom is asked."""
        if self.is_ours:
            return HttpClient(self._ours.address)
        authority = (self._cluster.account.folder / "ca.crt").read_text(encoding="ascii")
        return HttpClient(self._cluster.account.address, ca_pem=authority)

    def requests(self, count: int) -> list[bytes]:
        """Return requests for the next pods."""
        return [self._request(number) for number in islice(self._numbers, count)]

    def _request(self, number: int) -> bytes:
        name = WAITING.replace("{n}", str(number))
        full, nodes = self._scale.full, self._scale.nodes
        node = node_name(full + number % (nodes - full))
        if self.is_ours:
            body = {"PodName": name, "PodNamespace": "default", "PodUID": name, "Node": node}
            return post_request(f"{PREFIX}/bind", json.dumps(body).encode())
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        return post_request(path, _binding(name, node), token=TOKEN)


async def bind_rows(plan: Plan, cluster: Cluster, ours: Extender, scale: Scale) -> list[Row]:
    """Measure one call after the other, and eight callers at once."""
    sides = {name: _Side(name, cluster, ours, scale) for name in (OURS, DIRECTLY)}
    share = (2 * plan.rounds + 1) * plan.binds
    for number, side in enumerate(sides.values()):
        first = FIRST + number * share
        await cluster.api.create_many("pods", waiting_pod(WAITING), share, first=first)
        side.take(range(first, first + share))
    with ExitStack() as stack:
        timed = {
            name: _timed(side, stack.enter_context(side.client()), plan)
            for name, side in sides.items()
        }
        samples = await in_turns(timed, rounds=plan.rounds, calls=plan.binds)
    rates = await _at_once(plan, sides, cluster, ours)
    await _check_bound(cluster, share=share)
    return [
        *(
            row(
                f"Bind, p{percent}",
                "ms",
                [each / 1e3 for each in microseconds(samples[OURS], percent)],
                [each / 1e3 for each in microseconds(samples[DIRECTLY], percent)],
                baseline_is=DIRECTLY,
                bound=Bound(most=OWN_SHARE_MS, of=Compared.OVER) if percent == 50 else None,
                note="what is over is our share, HTTP included" if percent == 50 else "",
            )
            for percent in (50, 99)
        ),
        row(
            f"Binds a second, {CALLERS} callers",
            "/s",
            rates.per_second[OURS],
            rates.per_second[DIRECTLY],
            baseline_is=DIRECTLY,
            note="the simulated API server is the limit of both",
        ),
        row(
            "- processor time of the extender for one",
            "ms",
            rates.extender_ms,
            rates.server_ms,
            baseline_is="simulated API server's",
            note="the watch's events of these pods are in both",
        ),
    ]


def _timed(side: _Side, client: HttpClient, plan: Plan) -> Timed:
    requests = iter(side.requests((plan.rounds + 1) * plan.binds))

    async def once() -> float:
        request = next(requests)
        if not side.is_ours:
            return client.seconds(request)
        began = time.perf_counter()
        _bind(client, request)
        return time.perf_counter() - began

    return once


async def _at_once(
    plan: Plan, sides: Mapping[str, _Side], cluster: Cluster, ours: Extender
) -> _Rates:
    rates = _Rates(per_second={name: [] for name in sides}, extender_ms=[], server_ms=[])
    for _ in range(plan.rounds):
        for name, side in sides.items():
            requests = side.requests(plan.binds)
            parts = [requests[number::CALLERS] for number in range(CALLERS)]
            cpu = (ours.process.cpu_seconds(), cluster.process.cpu_seconds())
            with ExitStack() as stack:
                clients = [stack.enter_context(side.client()) for _ in parts]
                began = time.perf_counter()
                calls = zip(clients, parts, strict=True)
                await asyncio.gather(*(asyncio.to_thread(_all, *each, side) for each in calls))
                rates.per_second[name].append(plan.binds / (time.perf_counter() - began))
            if side.is_ours:
                milliseconds = 1e3 / plan.binds
                rates.extender_ms.append((ours.process.cpu_seconds() - cpu[0]) * milliseconds)
                rates.server_ms.append((cluster.process.cpu_seconds() - cpu[1]) * milliseconds)
    return rates


def _all(client: HttpClient, requests: list[bytes], side: _Side) -> None:
    for request in requests:
        if side.is_ours:
            _bind(client, request)
        else:
            client.seconds(request)


def _bind(client: HttpClient, request: bytes) -> None:
    status, body = client.answer(request)
    # An error is told in a 200.
    if status != 200 or json.loads(body)["Error"]:
        raise BenchError(f"bind: status {status}: {body[:400].decode(errors='replace')}")


async def _check_bound(cluster: Cluster, *, share: int) -> None:
    """Raise BenchError unless the last pod of each side is bound."""
    for first in (FIRST, FIRST + share):
        name = WAITING.replace("{n}", str(first))
        if not (await cluster.api.get("pods", name))["spec"].get("nodeName"):
            raise BenchError(f"pod {name} was not bound")


def _binding(name: str, node: str) -> bytes:
    annotations = {
        "ALIYUN_COM_GPU_MEM_IDX": str(CARD),
        "ALIYUN_COM_GPU_MEM_POD": str(POD_UNITS),
        "ALIYUN_COM_GPU_MEM_DEV": str(UNITS_A_CARD),
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1",
        "gpushare.io/extender": "1",
    }
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return json.dumps(binding).encode()
