"""The original extender's vectors, and an extender of ours beside the same cluster."""

import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.apiserver import SimApiServer
from tests.extender.daemons import Extender, extender_beside, node_object, pod_object
from tests.node.event_log import EventLog

ORIGINAL: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "original_extender.toml").read_text(encoding="utf-8")
)
PREFIX = "ALIYUN_COM_GPU_MEM_"


def vector(kind: str, name: str) -> dict[str, Any]:
    """One vector of the original, by the beginning of its name."""
    found: list[dict[str, Any]] = ORIGINAL[kind]
    [one] = [each for each in found if each["name"].startswith(name)]
    return one


@asynccontextmanager
async def ours(
    folder: Path, log: EventLog, *, before: tuple[Mapping[str, Any], ...] = ()
) -> AsyncIterator[Extender]:
    """Run ours beside the transcripts' cluster; pods of `before` are there at the start."""
    async with SimApiServer() as api:
        await api.create("nodes", node_object("gpu-a", 46, 2))
        await api.create("nodes", node_object("cpu"))
        for pod in before:
            await api.create("pods", pod)
        async with extender_beside(api, folder, log) as extender:
            yield extender


def held(name: str, units: int, card: int | None, **fields: Any) -> dict[str, Any]:
    """A pod on gpu-a, with the annotations of a bind if it has a card."""
    chosen = {f"{PREFIX}IDX": str(card), f"{PREFIX}POD": str(units)} if card is not None else {}
    spec = {"nodeName": "gpu-a"} | fields.pop("spec", {})
    return pod_object(name, units, metadata={"annotations": chosen}, spec=spec, **fields)


async def filtered(extender: Extender, vector: Mapping[str, Any]) -> dict[str, Any]:
    """What ours answers to a vector of filter, sent in its form."""
    pod = await extender.create(pod_object("asks", *vector["asks"]))
    nodes: object = vector["nodes"]
    if vector["form"] == "Nodes":
        nodes = {"items": [node_object(name, 46, 2) for name in vector["nodes"]]}
    lower = vector["form"].islower()
    body = {"pod" if lower else "Pod": pod, vector["form"]: nodes}
    found: dict[str, Any] = (await extender.post("filter", body)).json
    return found


async def list_unhealthy(extender: Extender, text: str) -> None:
    """Have the ConfigMap of gpu-a say this, and the extender know it."""
    probe = await extender.create(pod_object("probe", 1))
    lists = {"metadata": {"name": "unhealthy-gpu-gpu-a", "namespace": "kube-system"}}
    await extender.api.create("configmaps", lists | {"data": {"gpus": "0,1"}})
    await extender.comes_to_fit(probe, "gpu-a", fits=False)
    if text != "0,1":
        await extender.api.replace("configmaps", lists | {"data": {"gpus": text}})
        await extender.comes_to_fit(probe, "gpu-a", fits=True)
