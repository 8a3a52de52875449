"""Quiet moments of a cluster: nothing is to be done, and all sides say the same.

Rule: each side has its own time, so what differs is waited for; what stays different fails,
with all that differs and what the daemons say to it.
"""

import asyncio

from tests.e2e.agreement import (
    ALLOCATION,
    Json,
    free_by_node,
    node_disagreements,
    unexplained,
)
from tests.e2e.processes import HANGS_SECONDS
from tests.e2e.six_nodes import SixNodes
from tests.extender.http_sites import ask


async def quiet(cluster: SixNodes) -> list[Json]:
    """Wait until nothing is to be done and all sides agree; return the extender's pages.

    Raises AssertionError with what does not agree, where that stays so.
    """
    found, pages = ["it never was quiet"], list[Json]()
    try:
        async with asyncio.timeout(HANGS_SECONDS):
            while found:
                waiting = tuple(f"default/{each}" for each in cluster.waiting())
                await cluster.scheduler.idle(known=waiting, timeout_seconds=HANGS_SECONDS)
                pages = await _inspect(cluster)
                found = await _let_moved_go(cluster) or await _disagreements(cluster, pages)
                if found:
                    await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError("\n".join([*found, *_troubles(cluster)])) from None
    return pages


async def _inspect(cluster: SixNodes) -> list[Json]:
    """The extender's page of each node."""
    url = f"http://{cluster.address}/gpushare-scheduler/inspect"
    pages: list[Json] = (await ask(url)).json["nodes"]
    return pages


async def _let_moved_go(cluster: SixNodes) -> list[str]:
    """Delete pods that a daemon had to place by itself; return them."""
    moved = [each for each in cluster.names() if each in cluster.watch.moved]
    for name in moved:
        await cluster.delete(name)
    return moved


async def _disagreements(cluster: SixNodes, pages: list[Json]) -> list[str]:
    live = cluster.live()
    silent = [each for each in live if ALLOCATION not in each["metadata"]["annotations"]]
    if not cluster.driver.is_idle() or silent:
        return [f"no allocation of {[each['metadata']['name'] for each in silent]}"]
    found: list[str] = []
    for page in pages:
        name = page["name"]
        pods = {p["metadata"]["name"]: p for p in live if p["spec"]["nodeName"] == name}
        found += await node_disagreements(
            cluster.kubelets[name], cluster.cards[name], pods, cluster.plans, page
        )
    free = free_by_node(pages)
    for name in cluster.waiting():
        found += unexplained(cluster.plans[name], free, _last_note(cluster, name))
    return found


def _last_note(cluster: SixNodes, name: str) -> str:
    """The newest FailedScheduling event about a pod, which says what the pod's status says."""
    conditions: list[Json] = cluster.api.get("pods", name).get("status", {}).get("conditions", [])
    told = next((each["message"] for each in conditions if "message" in each), "")
    notes = [
        event["message"]
        for event in cluster.api.objects("events")
        if event["involvedObject"]["name"] == name and event["reason"] == "FailedScheduling"
    ]
    return told if told in notes else f"no such event: {told}; {notes}"


def _troubles(cluster: SixNodes) -> list[str]:
    """What the daemons' logs say of pods that were not served as they should be."""
    words = (" warning ", " error ", "pod=unknown")
    return [
        f"{name}: {line}"
        for name, each in cluster.daemons.items()
        for line in each.lines
        if any(word in line for word in words)
    ]
