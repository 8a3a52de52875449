"""The original's plugin, as its transcripts show it: what it reads, writes and answers.

Facts of `plugin-api-calls.jsonl` and of the vectors in `tests/golden/original.toml`: it counts
by annotation, never looks at a device ID, and gives the oldest pending candidate of equal size.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.kubelet import SimKubelet
from tests.node.clusters import COUNT, INDEX, NODE
from tests.node.nodes import RESOURCE
from tests.sim.apiserver_peers import STRATEGIC, Api
from tests.sim.kubelet_peers import Context, TinyPlugin

SOCKET = "aliyungpushare.sock"
ASSIGNED, ASSUME_TIME = "ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"


class Original:
    """Answers the kubelet from what the API server has."""

    def __init__(self, api: Api, cards: Sequence[str], units: int) -> None:
        self._api = api
        self._cards = cards
        self._units = units
        self.patched_count = False

    def devices(self) -> list[wire.Device]:
        """All units of all cards, in its format."""
        return [
            wire.Device(ID=f"{uuid}-_-{n}", health="Healthy")
            for uuid in self._cards
            for n in range(self._units)
        ]

    async def tell_count(self) -> None:
        """Write the number of cards where the node's capacity does not have it."""
        found = (await self._api.get(f"/api/v1/nodes/{NODE}")).json
        count = str(len(self._cards))
        if found["status"]["capacity"].get(COUNT) == count:
            return
        status = {"allocatable": {COUNT: count}, "capacity": {COUNT: count}}
        path = f"/api/v1/nodes/{NODE}/status"
        reply = await self._api.patch(path, {"status": status}, kind=STRATEGIC)
        assert reply.status == 200
        self.patched_count = True

    async def allocate(self, ids: list[str], _: Context) -> wire.AllocateResponse:
        """Give the card of the first candidate of this size."""
        candidates = [pod for pod in await self._candidates() if _units(pod) == len(ids)]
        card = -1
        if candidates:
            card = int(_annotations(candidates[0])[INDEX])
            await self._assign(candidates[0])
        envs = {
            "NVIDIA_VISIBLE_DEVICES": str(card) if candidates else "no-gpu-has-to-run",
            INDEX: str(card),
        }
        answer = wire.ContainerAllocateResponse(envs=envs)
        return wire.AllocateResponse(container_responses=[answer])

    async def _candidates(self) -> list[dict[str, Any]]:
        selector = f"spec.nodeName={NODE},status.phase=Pending"
        pods = (await self._api.get("/api/v1/pods", fieldSelector=selector)).json["items"]
        asking = [
            pod
            for pod in pods
            if _units(pod)
            and ASSUME_TIME in _annotations(pod)
            and _annotations(pod).get(ASSIGNED) == "false"
        ]
        return sorted(asking, key=lambda pod: int(_annotations(pod)[ASSUME_TIME]))

    async def _assign(self, pod: Mapping[str, Any]) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        change = {ASSIGNED: "true", ASSUME_TIME: "1796092762999999999"}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        await self._api.patch(path, {"metadata": {"annotations": change}}, kind=STRATEGIC)


@asynccontextmanager
async def original(
    kubelet: SimKubelet, server: SimApiServer, cards: Sequence[str], *, units: int
) -> AsyncIterator[Original]:
    """Run it until the kubelet has its devices, and no longer than the block."""
    async with Api(server) as api:
        plugin = Original(api, cards, units)
        await plugin.tell_count()
        tiny = TinyPlugin(kubelet, plugin.devices(), resource=RESOURCE, endpoint=SOCKET)
        tiny.on_allocate = plugin.allocate
        tiny.path.unlink(missing_ok=True)
        async with tiny:
            await tiny.come_up()
            yield plugin
    # It removes its socket when it is told to end.
    tiny.path.unlink(missing_ok=True)


def _annotations(pod: Mapping[str, Any]) -> dict[str, str]:
    return dict(pod["metadata"].get("annotations") or {})


def _units(pod: Mapping[str, Any]) -> int:
    limits = [each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"]]
    return sum(int(each.get(RESOURCE, 0)) for each in limits)
