"""A node for tests: the daemon, in this process, beside a simulated kubelet and GPUs.

Rule: both ends are real. The daemon finds sockets and a C library; the tests look at
what the kubelet, the containers, the log and the pages show.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from gpushare_plugin.app.node import NodeDaemon
from gpushare_plugin.config import NodeConfig, load_node_config
from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import (
    ContainerSpec,
    KubeletSettings,
    PodSpec,
    ResourceState,
    SimKubelet,
)
from tests.node.event_log import EventLog

RESOURCE = "aliyun.com/gpu-mem"
FIRST = "GPU-6f0c3a52-8d1e-4b7a-9c35-2e4f81a7d601"
SECOND = "GPU-b81d94e7-3c60-4f2b-8a19-d75e02c6f4b2"
FIRST_TAG, SECOND_TAG = "6f0c3a52", "b81d94e7"
"""The two cards of the profile t4-x2, 15 units each."""

STARTS_SECONDS = 15.0
"""Only what never comes takes so long, or comes on a machine that is very busy."""

SYSTEM = "system driver=570.124.06 cuda=12080\n"


@dataclass(kw_only=True)
class Node:
    """What a test holds of a running node."""

    folder: Path
    kubelet: SimKubelet
    gpus: EventsFile
    log: EventLog
    config: NodeConfig
    running: "asyncio.Task[None]"

    @property
    def plugin_dir(self) -> Path:
        return self.config.plugin_dir

    @property
    def resource(self) -> ResourceState:
        """The memory resource as the node reports it."""
        return self.kubelet.state().resources[RESOURCE]

    def sockets(self) -> list[Path]:
        """The daemon's sockets in the plugin folder."""
        return sorted(self.plugin_dir.glob("aliyungpushare-*.sock"))

    def socket(self) -> Path:
        """The daemon's one socket."""
        [path] = self.sockets()
        return path

    def registrations(self) -> int:
        """How often the kubelet accepted the daemon's registration."""
        return len(self.kubelet.state().registrations)

    async def ready(self, *, units: int = 30, registrations: int = 1) -> None:
        """Wait until the kubelet has so many healthy units, after so many registrations."""
        kubelet, seconds = self.kubelet, STARTS_SECONDS
        await kubelet.registered(RESOURCE, count=registrations, timeout_seconds=seconds)
        await kubelet.allocatable(RESOURCE, equals=units, timeout_seconds=seconds)

    async def page(self, path: str) -> tuple[int, str]:
        """Get one of the status pages."""
        said = await self.log.said("status_pages")
        url = f"http://127.0.0.1:{said['port']}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def metric(self, name: str, **labels: str) -> float | None:
        """The value of one metric; None where there is none with these labels."""
        _, text = await self.page("/metrics")
        return metric(text, name, **labels)


def metric(text: str, name: str, **labels: str) -> float | None:
    """Find one value in an exposition."""
    for line in text.splitlines():
        head, _, value = line.rpartition(" ")
        found, _, rest = head.partition("{")
        if found == name and all(f'{key}="{wanted}"' in rest for key, wanted in labels.items()):
            return float(value)
    return None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a node is made with."""

    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the kubelet's settings."""
    kubelet_runs: bool = True


def config_in(folder: Path, **settings: str) -> NodeConfig:
    """The daemon's configuration for a node in this folder, quicker than on a real one."""
    values = {
        "simulate": "t4-x2",
        "without_cluster": "on",
        "simulate_events": str(folder / "events"),
        "plugin_dir": str(folder / "plugins"),
        "pod_resources_socket": str(folder / "pods" / "kubelet.sock"),
        "status_address": "off",
        "probe_seconds": "0.1",
        "tick_seconds": "0.2",
        "log_level": "debug",
    }
    return load_node_config(values | settings, {})


def kubelet_settings(folder: Path, **changes: Any) -> KubeletSettings:
    return KubeletSettings(
        plugin_dir=folder / "plugins",
        pod_resources_socket=folder / "pods" / "kubelet.sock",
        **changes,
    )


def profile_in(folder: Path, text: str) -> str:
    """Write a machine's description; return what `--simulate` takes."""
    path = folder / "machine.profile"
    path.write_text(text if text.startswith("system") else SYSTEM + text, encoding="utf-8")
    return str(path)


@asynccontextmanager
async def daemon_running(config: NodeConfig) -> "AsyncIterator[asyncio.Task[None]]":
    """Run the daemon; stop it in the end, and raise what it ended of by itself."""
    running = asyncio.create_task(NodeDaemon(config).run(), name="the daemon under test")
    try:
        yield running
    finally:
        ended_by_itself = running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if ended_by_itself and not running.cancelled():
            running.result()


@asynccontextmanager
async def node_in(
    folder: Path, log: EventLog, machine: Machine | None = None, /, **settings: str
) -> AsyncIterator[Node]:
    """Run a node; its kubelet is up before its daemon is, if it runs at all."""
    machine = machine or Machine()
    config = config_in(folder, **settings)
    kubelet = SimKubelet(kubelet_settings(folder, **machine.kubelet))
    try:
        if machine.kubelet_runs:
            await kubelet.start()
        async with daemon_running(config) as running:
            yield Node(
                folder=folder,
                kubelet=kubelet,
                gpus=EventsFile(folder / "events"),
                log=log,
                config=config,
                running=running,
            )
    finally:
        await kubelet.stop()


def pod(name: str, *units: int, init: tuple[int, ...] = ()) -> PodSpec:
    """A pod with a container for each number of units."""
    return PodSpec(
        name=name,
        uid=f"uid-{name}",
        containers=tuple(_container(f"c{n}", each) for n, each in enumerate(units)),
        init_containers=tuple(_container(f"i{n}", each) for n, each in enumerate(init)),
    )


def _container(name: str, units: int) -> ContainerSpec:
    return ContainerSpec(name=name, requests={RESOURCE: units} if units else {})
