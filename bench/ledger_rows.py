"""Rows of what one event of a watch costs the extender, in processor time.

Beside it: the same events received by this process, and not read. What a change costs the
next filter is in the rows of filter.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

from bench.cluster import Cluster
from bench.extender_cluster import FIRST, POD_UNITS, Scale, asking_pod, node_name
from bench.extender_process import PREFIX, Extender
from bench.figures import Row, row
from bench.http_client import HttpClient, get_request
from bench.plan import Plan
from bench.processes import BenchError
from bench.watches import SAME_BYTES, receive_lines
from gpushare_plugin.adapters.kube.transport import Transport

CARD = "5"
TOLD_SECONDS = 60.0
LOOK_SECONDS = 0.05
WHAT = {"a pod that asks for memory": POD_UNITS, "a pod that asks for none": 0}


async def ledger_rows(plan: Plan, cluster: Cluster, ours: Extender, scale: Scale) -> list[Row]:
    """Measure the events of pods that come."""
    rows = []
    count = min(plan.events, scale.nodes - scale.full)
    async with Transport(cluster.credentials()) as transport:
        for what, units in WHAT.items():
            extender_us, receiver_us = [], []
            for number in range(plan.rounds):
                template = asking_pod(f"event-{units}-{number}-{{n}}", units=units, cards=CARD)
                version = await _told(cluster, ours, scale, f"first-{units}-{number}")
                began = ours.process.cpu_seconds()
                first = FIRST + scale.full
                await cluster.api.create_many("pods", template, count, first=first)
                await _told(cluster, ours, scale, f"last-{units}-{number}")
                spent = ours.process.cpu_seconds() - began
                extender_us.append(spent / count * 1e6)
                began = time.process_time()
                await receive_lines(transport, "pods", version, count)
                receiver_us.append((time.process_time() - began) / count * 1e6)
            rows.append(
                row(
                    f"Watch event of {what}, processor time",
                    "µs",
                    extender_us,
                    receiver_us,
                    baseline_is=SAME_BYTES,
                    note=f"over {count:,} events a round, of 8 KB each",
                )
            )
    return rows


async def _told(cluster: Cluster, ours: Extender, scale: Scale, name: str) -> str:
    """Let one more pod come, and wait until the extender knows it: it knows all before, then.

    Returns the pod's version.
    """
    node = node_name(scale.nodes - 1)
    pod = asking_pod(name, units=POD_UNITS, cards=CARD, node=node)
    version = (await cluster.api.create("pods", pod))["metadata"]["resourceVersion"]
    request = get_request(f"{PREFIX}/inspect/{node}")
    with HttpClient(ours.address) as client:
        until_seconds = time.monotonic() + TOLD_SECONDS
        while name not in _pods_on(json.loads(client.answer(request)[1])):
            if time.monotonic() > until_seconds:
                raise BenchError(f"the extender never knew {name}:\n{ours.process.said()}")
            await asyncio.sleep(LOOK_SECONDS)
    return str(version)


def _pods_on(page: Mapping[str, Any]) -> set[str]:
    (node,) = page["nodes"]
    return {pod["name"] for card in node["devs"] for pod in card["pods"]}
