"""The cluster of the benchmarks: a simulated API server in a process of its own.

Rule: what a scheduler and the node's kubelet would write there is written here.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.processes import BenchError, running
from bench.subjects import NODE, RESOURCE, UP_SECONDS, Side, admit_pods
from gpushare_plugin.sim.apiserver import ApiServerControl, SimApiServerError, WaitExpiredError
from gpushare_plugin.sim.kubelet import ContainerSpec, PodSpec

WAITING_POD = "waiting"
CHOSEN_CARD = 7
"""The card that an extender chose for the pod that waits; the pods before it leave it free."""
ALLOCATION = "gpushare.io/allocation"
PUBLISHED_SECONDS = 60.0
CHURN_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An API server, and how a client reaches it."""

    api: ApiServerControl
    address: str
    kubeconfig: Path


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Run an API server that has the node's object and no pod."""
    with tempfile.TemporaryDirectory(prefix="gsb", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        control, log = folder / "api", folder / "api.log"
        arguments = ("--control-socket", str(control))
        async with running("gpushare_plugin.sim.apiserver", *arguments, log=log) as process:
            api = ApiServerControl(control)
            try:
                state = await api.ready(timeout_seconds=UP_SECONDS)
            except SimApiServerError as error:
                raise BenchError(f"{error}\n{process.said()}") from error
            await api.create("nodes", {"metadata": {"name": NODE}})
            kubeconfig = folder / "kubeconfig"
            text = await api.kubeconfig()
            await asyncio.to_thread(kubeconfig.write_text, text, encoding="utf-8")
            yield Cluster(api=api, address=state.address, kubeconfig=kubeconfig)


def pod(
    name: str, *, units: int, node: str, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a pod's object, whose UID is its name."""
    asked = {RESOURCE: str(units)}
    return {
        "metadata": {"name": name, "uid": name, "annotations": annotations or {}},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "image": "work", "resources": {"limits": asked, "requests": asked}}
            ],
        },
        "status": {"phase": "Pending"},
    }


async def others(api: ApiServerControl, count: int) -> None:
    """Let so many pods exist on other nodes."""
    await api.create_many("pods", pod("other-{n}", units=8, node="node-{n}"), count)


async def pods_on_node(api: ApiServerControl, side: Side, count: int, *, units: int) -> None:
    """Let pods come that hold units, and wait until the daemon has published them."""
    await api.create_many("pods", pod("pod-{n}", units=units, node=NODE), count)
    await admit_pods(side, count, units=units)
    try:
        async with asyncio.timeout(PUBLISHED_SECONDS):
            while True:
                version = (await api.state()).version
                if await _published(api, count):
                    break
                await api.newer_state(version, timeout_seconds=PUBLISHED_SECONDS)
    except (TimeoutError, WaitExpiredError):
        raise BenchError(f"not all pods were published\n{side.plugin.said()}") from None
    for number in range(count):
        await api.set_pod_phase(f"pod-{number}", "Running")


@asynccontextmanager
async def churn(api: ApiServerControl, count: int) -> AsyncIterator[None]:
    """Meanwhile take the published allocation off one pod after the other.

    The daemon is told of each by its watch, and publishes it again.
    """

    async def forget() -> None:
        for number in cycle(range(count)):
            change = {"metadata": {"annotations": {ALLOCATION: None}}}
            await api.patch("pods", f"pod-{number}", change)
            await asyncio.sleep(CHURN_SECONDS)

    async with asyncio.TaskGroup() as tasks:
        forgetting = tasks.create_task(forget(), name="churn")
        try:
            yield
        finally:
            forgetting.cancel()


async def pod_waits(side: Side, api: ApiServerControl | None, *, units: int) -> None:
    """Let a pod wait on the node: an extender chose its card, and it holds nothing yet.

    The kubelet lists it and gives it nothing, so that it waits for as long as calls are timed.
    """
    if api is not None:
        choice = {
            "ALIYUN_COM_GPU_MEM_IDX": str(CHOSEN_CARD),
            "ALIYUN_COM_GPU_MEM_POD": str(units),
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1",
            "gpushare.io/extender": "1",
        }
        waiting = pod(WAITING_POD, units=units, node=NODE, annotations=choice)
        await api.create("pods", waiting)
    main = ContainerSpec(name="main")
    await side.kubelet.admit(PodSpec(name=WAITING_POD, uid=WAITING_POD, containers=(main,)))


async def _published(api: ApiServerControl, count: int) -> bool:
    for number in range(count):
        found = await api.get("pods", f"pod-{number}")
        if ALLOCATION not in (found["metadata"].get("annotations") or {}):
            return False
    return True
