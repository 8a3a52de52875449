"""A node whose pods ask for memory and cores, and whose API server knows their specs.

Rule: one description of a pod makes both: what the API server has, and what the kubelet
is given.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.kubelet import ContainerSpec, PodSpec, PodStatus
from tests.node.event_log import EventLog
from tests.node.nodes import Machine, Node, node_in

NODE = "node-a"
ALIYUN = ("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage")
TENCENT = ("tencent.com/vcuda-memory", "tencent.com/vcuda-core")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What each container of a pod asks for: memory units and cores, by container name."""

    name: str
    containers: Mapping[str, tuple[int, int]]
    resources: tuple[str, str] = ALIYUN
    annotations: Mapping[str, str] = field(default_factory=dict)

    def for_the_kubelet(self) -> PodSpec:
        return PodSpec(
            name=self.name,
            uid=f"uid-{self.name}",
            containers=tuple(
                ContainerSpec(name=name, requests=self._requests(name)) for name in self.containers
            ),
        )

    def for_the_api_server(self) -> dict[str, Any]:
        containers = [
            {
                "name": name,
                "image": "app:1",
                "resources": {
                    kind: {key: str(units) for key, units in self._requests(name).items()}
                    for kind in ("limits", "requests")
                },
            }
            for name in self.containers
        ]
        return {
            "metadata": {
                "name": self.name,
                "uid": f"uid-{self.name}",
                "annotations": dict(self.annotations),
            },
            "spec": {"nodeName": NODE, "containers": containers},
            "status": {"phase": "Pending"},
        }

    def _requests(self, container: str) -> dict[str, int]:
        asked = zip(self.resources, self.containers[container], strict=True)
        return {resource: units for resource, units in asked if units}


@dataclass(kw_only=True)
class Cluster:
    """A node and its API server."""

    node: Node
    api: SimApiServer

    async def run(self, asked: Asked) -> PodStatus:
        """Bind the pod to the node, and let the kubelet admit it."""
        await self.api.create("pods", asked.for_the_api_server())
        return await self.node.kubelet.admit(asked.for_the_kubelet())


@asynccontextmanager
async def cluster_in(
    folder: Path, log: EventLog, machine: Machine | None = None, /, **settings: str
) -> AsyncIterator[Cluster]:
    """Run a node whose daemon speaks with an API server."""
    async with SimApiServer() as api:
        await api.create("nodes", {"metadata": {"name": NODE}, "status": {"capacity": {}}})
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(api.kubeconfig(), encoding="utf-8")
        given = {
            "without_cluster": "off",
            "node_name": NODE,
            "kubeconfig": str(kubeconfig),
        }
        async with node_in(folder, log, machine, **given, **settings) as node:
            await api.watched("pods")
            yield Cluster(node=node, api=api)
