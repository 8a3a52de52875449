"""Where the story is played: the peers, the pods of the story, and ways to look.

Rule: what a side "saw" is what that side says: the daemon's log and metrics, the
kubelet's state, the API server's objects.
"""

import asyncio
import json
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gpushare_plugin.demo.peers import NODE, Peers
from gpushare_plugin.errors import SimulationError
from gpushare_plugin.sim.kubelet import ContainerSpec, PodSpec, PodStatus, ResourceState

RESOURCE = "aliyun.com/gpu-mem"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
ALLOCATION = "gpushare.io/allocation"
SEEN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One pod of the story: what it asks for, and the card each container should get."""

    name: str
    units: tuple[int, ...]
    cards: tuple[int, ...] = ()
    chosen: int | None = None
    """The card that an extender chose, as it writes it on the pod."""

    def containers(self) -> list[str]:
        """Return the containers' names."""
        many = len(self.units) > 1
        return [f"main-{number}" if many else "main" for number, _ in enumerate(self.units, 1)]


@dataclass(slots=True)
class Stage:
    """Where the story is played, and what has happened on it."""

    peers: Peers
    pods: list[PodStatus] = field(default_factory=list)
    lines_shown: int = 0

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

    async def bind(self, pod: Expected) -> PodSpec:
        """Put a pod that is bound to the node into the API server; return it for the kubelet."""
        requests = [{RESOURCE: str(units)} for units in pod.units]
        containers = [
            {"name": name, "image": "work", "resources": {"limits": asked, "requests": asked}}
            for name, asked in zip(pod.containers(), requests, strict=True)
        ]
        annotations = {} if pod.chosen is None else _chosen(pod)
        made = await self.peers.api.create(
            "pods",
            {
                "metadata": {"name": pod.name, "annotations": annotations},
                "spec": {"nodeName": NODE, "containers": containers},
            },
        )
        specs = tuple(
            ContainerSpec(name=name, requests={RESOURCE: units})
            for name, units in zip(pod.containers(), pod.units, strict=True)
        )
        return PodSpec(name=pod.name, uid=made["metadata"]["uid"], containers=specs)

    async def annotations(self, pod: str) -> dict[str, str]:
        """Return what the pod is annotated with now."""
        found: dict[str, str] = (await self.peers.api.get("pods", pod))["metadata"]["annotations"]
        return found

    async def published(self, pod: str) -> dict[str, Any]:
        """Wait until the pod's real allocation is written on it; return it."""
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                while True:
                    version = (await self.peers.api.state()).version
                    annotations = await self.annotations(pod)
                    if ALLOCATION in annotations:
                        allocation: dict[str, Any] = json.loads(annotations[ALLOCATION])
                        return allocation
                    await self.peers.api.newer_state(version, timeout_seconds=SEEN_SECONDS)
        except TimeoutError:
            raise SimulationError(f"nothing was written on pod {pod}") from None

    async def log_with(self, *events: str) -> list[str]:
        """Return the daemon's log since the last look, these events only, in short.

        An event that is named several times is waited for as often.
        """
        daemon, begin = self.peers.daemon, self.lines_shown
        for event, count in Counter(events).items():
            await daemon.said(event, after=begin, times=count)
        lines, self.lines_shown = daemon.lines[begin:], len(daemon.lines)
        return [
            " ".join([line.event, *(f"{key}={value}" for key, value in _telling(line.fields))])
            for line in lines
            if line.event in events
        ]

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


def _chosen(pod: Expected) -> dict[str, str]:
    """Return the annotations that an extender writes when it binds a pod."""
    return {
        INDEX: str(pod.chosen),
        "ALIYUN_COM_GPU_MEM_POD": str(sum(pod.units)),
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1",
        "gpushare.io/extender": "1",
    }


def _telling(fields: dict[str, str]) -> list[tuple[str, str]]:
    """Return the fields that tell the story; what differs from run to run is left out."""
    dull = (
        "endpoint",
        "device_prefix",
        "uuid",
        "error",
        "reaction",
        "cards",
        "was",
        "stale_seconds",
    )
    return [(key, value) for key, value in fields.items() if key not in dull]


def _fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  # our own daemon's
        text: str = answer.read().decode()
    return text
