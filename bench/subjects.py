"""The two sides: the node daemon and the empty plugin, each under a kubelet of its own.

Each kubelet is the simulated one, in a process of its own, with no limit on
PodResources. The node has eight H200, divided into 141 units each.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError, Measured, running
from gpushare_plugin.errors import GpushareError
from gpushare_plugin.sim.kubelet import ContainerSpec, KubeletControl, Phase, PodSpec
from gpushare_plugin.sim.kubelet.failures import SimKubeletError

RESOURCE = "aliyun.com/gpu-mem"
EMPTY_RESOURCE = "bench.example/empty"
CARDS = 8
UNITS_A_CARD = 141
UNIT = "1019MiB"
"""Of an H200's 143,771 MiB this makes 141 units."""
UP_SECONDS = 20.0
NODE = "gpu-node"
"""The node object's name, where there is a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """What a pod has: the API server's URL, and a folder of `token` and `ca.crt`."""

    address: str
    folder: Path


Reach = Path | ServiceAccount
"""How a daemon reaches its cluster: by a kubeconfig file, or as in a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One plugin that is registered, and its kubelet."""

    plugin: Measured
    kubelet: KubeletControl
    socket: Path
    pod_resources: Path


def plugin_dir(folder: Path) -> Path:
    """Return the folder of plugins' sockets, of its own since a kubelet empties it."""
    return folder / "plugins"


def daemon_command(
    folder: Path, *, pod_resources: Path | None = None, reach: Reach | None = None
) -> list[str]:
    """Return module and arguments of the node daemon in this folder."""
    return [
        *_daemon_in_cluster(reach),
        *("--plugin-dir", str(plugin_dir(folder))),
        *("--pod-resources-socket", str(pod_resources or folder / "nobody.sock")),
        *("--simulate", "h200-x8", "--simulate-events", str(folder / "events")),
        *("--memory-unit", UNIT, "--status-address", "127.0.0.1:0"),
    ]


def empty_command(folder: Path, *, watch: bool = False) -> list[str]:
    """Return module and arguments of the empty plugin in this folder."""
    return [
        "bench.empty_plugin",
        str(plugin_dir(folder)),
        EMPTY_RESOURCE,
        *(["watch"] if watch else []),
    ]


@asynccontextmanager
async def daemon(*, finds_pods: bool = True, reach: Reach | None = None) -> AsyncIterator[Side]:
    """Run the node daemon, without a cluster unless it is told how to reach one.

    Without `finds_pods` nobody answers at its PodResources socket.
    """
    async with _kubelet() as (folder, kubelet):
        pods = folder / "pods.sock" if finds_pods else None
        command = daemon_command(folder, pod_resources=pods, reach=reach)
        async with _registered(command, RESOURCE, folder, kubelet) as side:
            await kubelet.allocatable(
                RESOURCE, equals=CARDS * UNITS_A_CARD, timeout_seconds=UP_SECONDS
            )
            yield side


@asynccontextmanager
async def empty(*, watch: bool = False) -> AsyncIterator[Side]:
    """Run the empty plugin."""
    async with _kubelet() as (folder, kubelet):
        command = empty_command(folder, watch=watch)
        async with _registered(command, EMPTY_RESOURCE, folder, kubelet) as side:
            yield side


async def admit_pods(side: Side, count: int, *, units: int) -> None:
    """Let so many pods come, of so many units each; of 0 units they are listed and hold none."""
    for number in range(count):
        name = f"pod-{number}"
        main = ContainerSpec(name="main", requests={RESOURCE: units} if units else {})
        status = await side.kubelet.admit(PodSpec(name=name, uid=name, containers=(main,)))
        if status.phase is Phase.FAILED:
            raise BenchError(f"{name} was rejected: {status.message}\n{side.plugin.said()}")


def _daemon_in_cluster(reach: Reach | None) -> list[str]:
    match reach:
        case None:
            return ["gpushare_plugin", "node", "--without-cluster"]
        case Path():
            named = ["--node-name", NODE, "--kubeconfig", str(reach)]
            return ["gpushare_plugin", "node", *named]
        case ServiceAccount(address=address, folder=folder):
            named = ["node", "--node-name", NODE]
            return ["bench.service_account", address, str(folder), *named]


@asynccontextmanager
async def _kubelet() -> AsyncIterator[tuple[Path, KubeletControl]]:
    with tempfile.TemporaryDirectory(prefix="gsb", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        plugin_dir(folder).mkdir()
        control = folder / "control"
        arguments = [
            *("--plugin-dir", str(plugin_dir(folder))),
            *("--pod-resources-socket", str(folder / "pods.sock")),
            *("--control-socket", str(control)),
            *("--list-calls-per-second", "1e9", "--list-burst-calls", "1000000000"),
        ]
        log = folder / "kubelet.log"
        async with running("gpushare_plugin.sim.kubelet", *arguments, log=log) as process:
            kubelet = KubeletControl(control)
            try:
                await kubelet.ready(timeout_seconds=UP_SECONDS)
            except SimKubeletError as error:
                raise BenchError(f"{error}\n{process.said()}") from error
            yield folder, kubelet


@asynccontextmanager
async def _registered(
    command: list[str], resource: str, folder: Path, kubelet: KubeletControl
) -> AsyncIterator[Side]:
    async with AsyncExitStack() as stack:
        plugin = await stack.enter_async_context(running(*command, log=folder / "plugin.log"))
        try:
            await kubelet.registered(resource, timeout_seconds=UP_SECONDS)
        except (SimKubeletError, GpushareError) as error:
            raise BenchError(f"{error}\n{plugin.said()}") from error
        registration = (await kubelet.state()).registrations[-1]
        # The kubelet opens its stream after it has answered.
        await asyncio.sleep(0.2)
        yield Side(
            plugin=plugin,
            kubelet=kubelet,
            socket=plugin_dir(folder) / registration.endpoint,
            pod_resources=folder / "pods.sock",
        )
