"""Where the story is played: the peers, the pods of the story, and ways to look.

Rule: what a side "saw" is what that side says: the daemon's log and metrics, the
kubelet's state, the API server's objects.
"""

import asyncio
import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpushare_plugin.demo.peers import MEMORY as RESOURCE
from gpushare_plugin.demo.peers import NODE, Peers
from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.kubelet import ContainerSpec, PodSpec, PodStatus, ResourceState

INDEX = "ALIYUN_COM_GPU_MEM_IDX"
ALLOCATION = "gpushare.io/allocation"
CARD_UNITS = 15
ALL_UNITS = 2 * CARD_UNITS
SEEN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One pod of the story: what it asks for, and the card it should get."""

    name: str
    units: tuple[int, ...]
    card: int | None = None
    """None where no card can hold it."""
    policy: str = ""
    """What its user wishes, if anything."""

    def containers(self) -> list[str]:
        """Return the containers' names."""
        many = len(self.units) > 1
        return [f"main-{number}" if many else "main" for number, _ in enumerate(self.units, 1)]


@dataclass(slots=True)
class Stage:
    """Where the story is played, and what has happened on it."""

    peers: Peers
    pods: list[PodStatus] = field(default_factory=list)

    async def resource(self) -> ResourceState:
        """Return what the kubelet knows of our resource."""
        return (await self.peers.kubelet.state()).resources[RESOURCE]

    async def tell_capacity(self) -> None:
        """Write on the node object what the kubelet would: how many units there are."""
        resource = await self.resource()
        status = {
            "capacity": {RESOURCE: str(resource.capacity)},
            "allocatable": {RESOURCE: str(resource.allocatable)},
        }
        await self.peers.api.patch("nodes", NODE, {"status": status})

    async def create(self, pod: Expected) -> None:
        """Put a pod into the API server as its user does: on no node yet."""
        requests = [{RESOURCE: str(units)} for units in pod.units]
        containers = [
            {"name": name, "image": "work", "resources": {"limits": asked, "requests": asked}}
            for name, asked in zip(pod.containers(), requests, strict=True)
        ]
        annotations = {"gpushare.io/policy": pod.policy} if pod.policy else {}
        metadata = {"name": pod.name, "annotations": annotations}
        await self.peers.api.create(
            "pods", {"metadata": metadata, "spec": {"containers": containers}}
        )

    async def bound(self, pod: Expected) -> PodSpec:
        """Wait until the pod is bound to the node; return it as its kubelet sees it."""
        found = await self._until_pod(
            pod.name, lambda value: value["spec"].get("nodeName") == NODE, "it was not bound"
        )
        specs = tuple(
            ContainerSpec(name=name, requests={RESOURCE: units})
            for name, units in zip(pod.containers(), pod.units, strict=True)
        )
        return PodSpec(name=pod.name, uid=found["metadata"]["uid"], containers=specs)

    async def refusal(self, pod: Expected) -> str:
        """Wait until the scheduler has told the pod's user why it waits; return the event."""
        key = f"default/{pod.name}"
        await self.peers.scheduler.idle(known=(key,), timeout_seconds=SEEN_SECONDS)
        told = [
            str(event["message"])
            for event in await self.peers.api.objects("events")
            if event["reason"] == "FailedScheduling" and event["involvedObject"]["name"] == pod.name
        ]
        return told[-1] if told else ""

    async def annotations(self, pod: str) -> dict[str, str]:
        """Return what the pod is annotated with now."""
        found: dict[str, str] = (await self.peers.api.get("pods", pod))["metadata"]["annotations"]
        return found

    async def published(self, pod: str) -> dict[str, Any]:
        """Wait until the pod's real allocation is written on it; return it."""
        found = await self._until_pod(
            pod,
            lambda value: ALLOCATION in value["metadata"]["annotations"],
            "its allocation was not written on it",
        )
        allocation: dict[str, Any] = json.loads(found["metadata"]["annotations"][ALLOCATION])
        return allocation

    async def ledger(self) -> dict[str, dict[int, int]]:
        """Return what the extender counts for each pod, by card: what it places the next by."""
        port = (await self.peers.extender.said("listening")).fields["port"]
        address = f"http://127.0.0.1:{port}/gpushare-scheduler/inspect/{NODE}"
        page = json.loads(await asyncio.to_thread(_fetched, address))
        found: dict[str, dict[int, int]] = {}
        for card in page["nodes"][0]["devs"]:
            for pod in card["pods"]:
                found.setdefault(pod["name"], {})[card["id"]] = pod["usedGPU"]
        return found

    async def _until_pod(
        self, name: str, holds: Callable[[dict[str, Any]], bool], failure: str
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                while True:
                    version = (await self.peers.api.state()).version
                    pod: dict[str, Any] = await self.peers.api.get("pods", name)
                    if holds(pod):
                        return pod
                    await self.peers.api.newer_state(version, timeout_seconds=SEEN_SECONDS)
        except TimeoutError:
            raise SimulationError(f"pod {name}: {failure}") from None

    async def metrics(self) -> str:
        """Return the daemon's metrics, asked over HTTP as Prometheus does."""
        page = await self.peers.daemon.said("status_pages")
        address = f"http://127.0.0.1:{page.fields['port']}/metrics"
        return await asyncio.to_thread(_fetched, address)


def metric(metrics: str, name: str, **labels: str) -> int:
    """Return the value of the one sample of this name with these labels.

    Raises:
        SimulationError: there is none.
    """
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    for line in metrics.splitlines():
        if line.startswith(f"{name}{{") and all(each in line for each in wanted):
            return int(float(line.rsplit(" ", 1)[1]))
    raise SimulationError(f"the daemon has no metric {name} with {' '.join(wanted)}")


def counts(resource: ResourceState) -> str:
    """Say in short what the kubelet has of our resource."""
    return f"{RESOURCE}: capacity {resource.capacity}, allocatable {resource.allocatable}"


def _fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  # our own daemon's
        text: str = answer.read().decode()
    return text
