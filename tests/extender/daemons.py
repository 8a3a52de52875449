"""The extender's daemon in this process, over real HTTP, beside a simulated API server.

Rule: what a test waits for is what the extender itself says or shows; nothing sleeps.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpushare_plugin.app.extender import ExtenderDaemon
from gpushare_plugin.config import load_extender_config
from gpushare_plugin.sim.apiserver import SimApiServer
from tests.extender.http_sites import MEMORY, PREFIX, Answer, ask
from tests.node.event_log import EventLog

COUNT = "aliyun.com/gpu-count"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
HANGS_SECONDS = 5.0


def node_object(name: str, units: int = 0, count: int = 0, **annotations: str) -> dict[str, Any]:
    """A node object; without units, of no GPU."""
    ours = {MEMORY: str(units), COUNT: str(count)} if units else {}
    resources = {"cpu": "8", **ours}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "status": {"capacity": resources, "allocatable": resources, **READY},
    }


def pod_object(name: str, *units: int | str, **fields: Any) -> dict[str, Any]:
    """A pod object of one container for each amount."""
    containers = [
        {"name": f"c{n}", "image": "app:1", "resources": _limits(each)}
        for n, each in enumerate(units or (0,))
    ]
    spec = {"containers": containers, **fields.pop("spec", {})}
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, "spec": spec, **fields}


def _limits(units: int | str) -> dict[str, Any]:
    return {"limits": {MEMORY: str(units)}} if units else {}


@dataclass(kw_only=True)
class Extender:
    """A running extender, and the cluster that it sees."""

    api: SimApiServer
    url: str
    log: EventLog
    config: Mapping[str, str]

    async def post(self, verb: str, body: Any) -> Answer:
        """One call of a scheduler."""
        return await ask(f"{self.url}{PREFIX}/{verb}", "POST", body=body)

    async def page(self, path: str) -> Answer:
        return await ask(self.url + path)

    async def filter(self, pod: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Filter by names; return the result."""
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(names)}
        found: dict[str, Any] = (await self.post("filter", body)).json
        return found

    async def bind(self, pod: Mapping[str, Any], node_name: str) -> Answer:
        meta = pod["metadata"]
        body = {
            "PodName": meta["name"],
            "PodNamespace": meta["namespace"],
            "PodUID": meta["uid"],
            "Node": node_name,
        }
        return await self.post("bind", body)

    async def comes_to_fit(self, pod: Mapping[str, Any], node_name: str, *, fits: bool) -> None:
        """Wait until the pod passes filter on the node, or does not any more."""
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(HANGS_SECONDS):
                while (found.get("NodeNames") == [node_name]) is not fits or not found:
                    found = await self.filter(pod, node_name)
        except TimeoutError:
            raise AssertionError(f"{node_name} never came to fit={fits}: {found}") from None

    async def create(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = await self.api.create("pods", pod)
        return made

    async def used(self, node_name: str) -> list[tuple[int, int, list[str]]]:
        """Of each card: its units, how many are held, and by which pods."""
        page = (await self.page(f"{PREFIX}/inspect/{node_name}")).json
        return [
            (card["totalGPU"], card["usedGPU"], sorted(pod["name"] for pod in card["pods"]))
            for card in page["nodes"][0]["devs"]
        ]

    async def comes_to_use(self, node_name: str, *wanted: tuple[int, list[str]]) -> None:
        """Wait until each card has so many units held, by these pods."""
        found: list[tuple[int, list[str]]] = []
        try:
            async with asyncio.timeout(HANGS_SECONDS):
                while found != list(wanted):
                    found = [(used, pods) for _, used, pods in await self.used(node_name)]
        except TimeoutError:
            raise AssertionError(f"{node_name} came to {found}, not {wanted}") from None


@asynccontextmanager
async def extender_beside(
    api: SimApiServer, folder: Path, log: EventLog, *, synced: bool = True, **settings: str
) -> AsyncIterator[Extender]:
    """Run an extender until the end of the context; it knows the cluster if `synced`."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(api.kubeconfig(), encoding="utf-8")
    given = {
        "kubeconfig": str(kubeconfig),
        "listen_address": "127.0.0.1:0",
        "status_address": "off",
        **settings,
    }
    daemon = ExtenderDaemon(load_extender_config(given, {}))
    before = len(log.of("synced")), len(log.of("listening"))
    running = asyncio.create_task(daemon.run())
    try:
        said = await log.said("listening", times=before[1] + 1)
        if synced:
            await log.said("synced", times=before[0] + 1)
        scheme = "https" if "tls_certificate" in given else "http"
        yield Extender(api=api, url=f"{scheme}://127.0.0.1:{said['port']}", log=log, config=given)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
