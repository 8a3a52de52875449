"""What kubelets do with the API server: admit bound pods, write phases, end what is deleted.

Rule: a simulated kubelet knows no API server, so this stands between the two; it decides
nothing. A node admits one pod at a time, as a kubelet does.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.kubelet import ContainerSpec, Phase, PodSpec, SimKubelet

Json = dict[str, Any]
NODE_STATUS_SECONDS = 0.02
"""How long at least between two writes of a node's status; the real ones take seconds."""
LOOK_SECONDS = 0.02
"""How long at least between two looks at all pods."""
FOREVER_SECONDS = 3600.0


class ApiKubelets:
    """The kubelets of all nodes, by node name."""

    def __init__(
        self,
        api: SimApiServer,
        kubelets: Mapping[str, SimKubelet],
        seen: Callable[[tuple[Json, ...]], None],
    ) -> None:
        """`seen` is called with all pods soon after every change of the cluster."""
        self._api = api
        self._kubelets = kubelets
        self._seen = seen
        self._work = {name: asyncio.Queue[Json]() for name in kubelets}
        self._taken: set[tuple[str, bool]] = set()
        """UID, and whether it is the pod's end."""
        self._under_way = 0
        self.rejected: list[tuple[str, str]] = []
        """Nodes and messages of their kubelets, for each pod that one would not run."""

    async def run(self) -> None:
        """Be the kubelets until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, kubelet in self._kubelets.items():
                tasks.create_task(self._serve(kubelet, self._work[name]))
                tasks.create_task(self._tell_capacity(name, kubelet))
            tasks.create_task(self._watch())

    def is_idle(self) -> bool:
        """Whether all bound pods run or have ended, and all deleted ones are gone."""
        self._look()
        return not self._under_way

    async def _watch(self) -> None:
        while True:
            version = self._api.state().version
            self._look()
            await asyncio.sleep(LOOK_SECONDS)
            await self._api.newer_state(version, timeout_seconds=FOREVER_SECONDS)

    def _look(self) -> None:
        pods = self._api.objects("pods")
        self._seen(pods)
        for pod in pods:
            key = (pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"])
            node_name = pod["spec"].get("nodeName")
            if node_name and key not in self._taken:
                self._taken.add(key)
                self._under_way += 1
                self._work[node_name].put_nowait(pod)

    async def _serve(self, kubelet: SimKubelet, work: "asyncio.Queue[Json]") -> None:
        admitted: set[str] = set()
        while True:
            pod = await work.get()
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            if "deletionTimestamp" not in pod["metadata"]:
                admitted.add(uid)
                await self._admit(kubelet, pod)
            else:
                if uid in admitted:
                    await kubelet.delete_pod(uid)
                await self._api.finish_termination(name)
            self._under_way -= 1

    async def _admit(self, kubelet: SimKubelet, pod: Json) -> None:
        status = await kubelet.admit(spec_of(pod))
        name = pod["metadata"]["name"]
        told = {"phase": status.phase.value, "reason": status.reason, "message": status.message}
        if status.phase is Phase.FAILED:
            self.rejected.append((pod["spec"]["nodeName"], status.message))
        # It was bound, so whoever deletes it waits for its kubelet: it is still there.
        await self._api.patch("pods", name, {"status": told})

    async def _tell_capacity(self, name: str, kubelet: SimKubelet) -> None:
        told: Json = {}
        while True:
            state = kubelet.state()
            found = {
                "capacity": {key: str(each.capacity) for key, each in state.resources.items()},
                "allocatable": {
                    key: str(each.allocatable) for key, each in state.resources.items()
                },
            }
            if found != told:
                told = found
                await self._api.patch("nodes", name, {"status": found})
            await asyncio.sleep(NODE_STATUS_SECONDS)
            await kubelet.newer_state(state.version, timeout_seconds=FOREVER_SECONDS)


def spec_of(pod: Json) -> PodSpec:
    """A pod of the API server as its kubelet takes it."""
    spec = pod["spec"]
    return PodSpec(
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        containers=tuple(map(_container, spec["containers"])),
        init_containers=tuple(map(_container, spec.get("initContainers", ()))),
    )


def _container(container: Json) -> ContainerSpec:
    limits = (container.get("resources") or {}).get("limits") or {}
    return ContainerSpec(
        name=container["name"],
        requests={name: int(amount) for name, amount in limits.items()},
        restartable=container.get("restartPolicy") == "Always",
    )
