"""A cluster of one node for tests: the daemon in this process, its kubelet and an API server.

Rule: all three are real ends that speak through sockets; tests look at the objects, the
containers and the log. A pod is made in the API server and admitted by the kubelet.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.apiserver import ApiServerSettings, SimApiServer
from gpushare_plugin.sim.kubelet import ContainerSpec, PodSpec, PodStatus
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, STARTS_SECONDS, Machine, Node, node_in

NODE = "gpu-a"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
ALLOCATION = "gpushare.io/allocation"
OURS: Mapping[str, str] = {"gpushare.io/extender": "1"}
"""The mark of our extender."""
COUNT = "aliyun.com/gpu-count"


@dataclass(kw_only=True)
class Cluster:
    """What a test holds of it."""

    api: SimApiServer
    node: Node

    async def ready(self, *, units: int = 30, registrations: int = 1) -> None:
        """Wait until the kubelet has the units, and the daemon the pods of the API server.

        A daemon registers without the API server where that takes long: a pod that came
        before would go where the policy says.
        """
        await self.node.ready(units=units, registrations=registrations)
        await self.api.watched("pods", timeout_seconds=STARTS_SECONDS)

    async def bind(
        self,
        name: str,
        *units: int,
        init: tuple[int, ...] = (),
        choice: Mapping[str, str] | None = None,
    ) -> PodSpec:
        """Make a pod that is bound to the node; return it as the kubelet sees it."""
        return await bind(self.api, name, *units, init=init, annotations=choice or {})

    async def run(
        self, name: str, *units: int, choice: Mapping[str, str] | None = None
    ) -> PodStatus:
        """Bind a pod with these annotations, and have it admitted."""
        return await self.admit(await self.bind(name, *units, choice=choice))

    async def admit(self, pod: PodSpec) -> PodStatus:
        """Have the kubelet admit a pod, and write its phase as a kubelet does."""
        status = await self.node.kubelet.admit(pod)
        await self.api.set_pod_phase(pod.name, status.phase.value)
        return status

    async def published(self, name: str, **wanted: str) -> dict[str, str]:
        """Wait until a pod's allocation is published; return its annotations."""
        found = await self.api.until_object(
            "pods",
            name,
            lambda pod: (
                ALLOCATION in (pod["metadata"].get("annotations") or {})
                and wanted.items() <= pod["metadata"]["annotations"].items()
            ),
        )
        return dict(found["metadata"]["annotations"])

    async def allocation(self, name: str) -> dict[str, dict[str, int]]:
        """Wait for a pod's published allocation."""
        return dict(json.loads((await self.published(name))[ALLOCATION]))

    async def recorded(self, **annotations: str) -> dict[str, Any]:
        """Wait until the node's cards are published, with these annotations; return the node."""
        return dict(
            await self.api.until_object(
                "nodes",
                NODE,
                lambda node: (
                    "gpushare.io/gpus" in (node["metadata"].get("annotations") or {})
                    and annotations.items() <= node["metadata"]["annotations"].items()
                ),
            )
        )

    async def event(self, reason: str) -> dict[str, Any]:
        """Wait for an event of that reason; return it."""

        def found() -> list[dict[str, Any]]:
            namespaces = ("default", "kube-system")
            return [
                dict(each)
                for namespace in namespaces
                for each in self.api.objects("events", namespace=namespace)
                if each["reason"] == reason
            ]

        await self.api.until(lambda: bool(found()), failure=lambda: f"no event {reason}")
        return found()[0]


async def bind(
    api: SimApiServer,
    name: str,
    *units: int,
    init: tuple[int, ...] = (),
    annotations: Mapping[str, str],
) -> PodSpec:
    """Make a pod with a container for each number of units; 0 asks for nothing."""
    mains = [_container(f"c{number}", each) for number, each in enumerate(units)]
    inits = [_container(f"i{number}", each) for number, each in enumerate(init)]
    made = await api.create(
        "pods",
        {
            "metadata": {"name": name, "namespace": "default", "annotations": {**annotations}},
            "spec": {"nodeName": NODE, "containers": mains, "initContainers": inits},
            "status": {"phase": "Pending"},
        },
    )
    return PodSpec(
        name=name,
        uid=made["metadata"]["uid"],
        containers=tuple(_spec(each) for each in mains),
        init_containers=tuple(_spec(each) for each in inits),
    )


def chosen(index: object, *, ours: bool = True) -> dict[str, str]:
    """The annotations that an extender leaves with its choice of a card."""
    choice = {
        INDEX: str(index),
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1796092762173468028",
    }
    return {**choice, **OURS} if ours else choice


def cards_of(status: PodStatus) -> list[str]:
    """The card index of each container, as its environment says."""
    return [each.env.get(INDEX, "") for each in status.containers]


@asynccontextmanager
async def cluster_in(
    folder: Path, log: EventLog, machine: Machine | None = None, /, **settings: str
) -> AsyncIterator[Cluster]:
    """Run a cluster; the node object is there before its daemon is."""
    async with SimApiServer(ApiServerSettings(managed_fields_bytes=0)) as api:
        await make_node(api)
        async with daemon_in(folder, log, api, machine, **settings) as cluster:
            yield cluster


@asynccontextmanager
async def daemon_in(
    folder: Path,
    log: EventLog,
    api: SimApiServer,
    machine: Machine | None = None,
    /,
    **settings: str,
) -> AsyncIterator[Cluster]:
    """Run the daemon, and a kubelet, beside an API server that is there already."""
    async with node_in(folder, log, machine, **in_cluster(folder, api), **settings) as node:
        yield Cluster(api=api, node=node)


def in_cluster(folder: Path, api: SimApiServer) -> dict[str, str]:
    """The settings by which the daemon finds the API server."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(api.kubeconfig(), encoding="utf-8")
    return {"without_cluster": "off", "node_name": NODE, "kubeconfig": str(kubeconfig)}


async def make_node(api: SimApiServer, **metadata: object) -> None:
    """Make the node object, as its kubelet does before any plugin is there."""
    resources = {"cpu": "8"}
    status = {"capacity": resources, "allocatable": resources}
    await api.create("nodes", {"metadata": {"name": NODE, **metadata}, "status": status})


def _container(name: str, units: int) -> dict[str, Any]:
    amounts = {RESOURCE: str(units)}
    resources = {"limits": amounts, "requests": amounts} if units else {}
    return {"name": name, "image": "busybox", "resources": resources}


def _spec(container: Mapping[str, Any]) -> ContainerSpec:
    limits = container["resources"].get("limits", {})
    return ContainerSpec(
        name=container["name"], requests={key: int(value) for key, value in limits.items()}
    )
