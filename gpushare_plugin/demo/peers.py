"""The processes of the demo: our two programs, and what they speak with on a cluster.

Rule: the simulated kube-scheduler asks the extender as its configuration says, and nothing
else tells the one of the other.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gpushare_plugin.demo.processes import SAID_SECONDS, Daemon, our_program, process
from gpushare_plugin.sim.apiserver import ApiServerControl
from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import KubeletControl
from gpushare_plugin.sim.scheduler import SchedulerControl

NODE = "gpu-node"
MEMORY = "aliyun.com/gpu-mem"
PROBE_SECONDS = 0.5
"""A node probes every 30 s; the story's recovery shall not take a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """The processes and the ways to reach them."""

    folder: Path
    kubelet: KubeletControl
    api: ApiServerControl
    scheduler: SchedulerControl
    daemon: Daemon
    extender: Daemon
    events: EventsFile
    events_path: Path


@asynccontextmanager
async def small_cluster(folder: Path) -> AsyncIterator[Peers]:
    """Start an API server, a node with its kubelet, a scheduler with the extender; stop all."""
    (folder / "device-plugins").mkdir()
    api, kubelet, scheduler, kubeconfig, events = (
        folder / name
        for name in ("api.sock", "kubelet.sock", "scheduler.sock", "kubeconfig", "events")
    )
    control = ApiServerControl(api)
    reached = ("--kubeconfig", str(kubeconfig))
    async with (
        process("gpushare_plugin.sim.kubelet", *_sockets(folder), *_control(kubelet)),
        process("gpushare_plugin.sim.apiserver", *_control(api)),
        _made_ready(control, kubeconfig),
        our_program("the daemon", "node", *reached, *_node(folder, events)) as daemon,
        our_program("the extender", "extender", *reached, *_EXTENDER) as extender,
        process(
            "gpushare_plugin.sim.scheduler",
            *reached,
            *("--config", str(await _configured(folder, extender))),
            *("--backoff-scale", "0.05", "--watch-retry-seconds", "0.1", *_control(scheduler)),
        ),
    ):
        peers = Peers(
            folder=folder,
            kubelet=KubeletControl(kubelet),
            api=control,
            scheduler=SchedulerControl(scheduler),
            daemon=daemon,
            extender=extender,
            events=EventsFile(events),
            events_path=events,
        )
        await peers.kubelet.ready(timeout_seconds=SAID_SECONDS)
        await extender.said("synced")
        await peers.scheduler.ready(timeout_seconds=SAID_SECONDS)
        await peers.scheduler.leading(timeout_seconds=SAID_SECONDS)
        yield peers


_EXTENDER = ("--listen-address", "127.0.0.1:0", "--status-address", "off")


def _control(socket: Path) -> tuple[str, str]:
    return "--control-socket", str(socket)


def _sockets(folder: Path) -> tuple[str, ...]:
    pods = ("--pod-resources-socket", str(folder / "pods.sock"))
    return "--plugin-dir", str(folder / "device-plugins"), *pods


def _node(folder: Path, events: Path) -> tuple[str, ...]:
    return (
        *("--node-name", NODE, *_sockets(folder)),
        *("--simulate", "t4-x2", "--simulate-events", str(events)),
        *("--probe-seconds", str(PROBE_SECONDS), "--status-address", "127.0.0.1:0"),
    )


async def _configured(folder: Path, extender: Daemon) -> Path:
    """Write the scheduler's configuration, as an administrator does; return its path."""
    port = (await extender.said("listening")).fields["port"]
    asked = {
        "urlPrefix": f"http://127.0.0.1:{port}/gpushare-scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 100,
        "nodeCacheCapable": True,
        "managedResources": [{"name": MEMORY, "ignoredByScheduler": False}],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "extenders": [asked],
    }
    path = folder / "scheduler.yaml"
    # JSON is YAML.
    await asyncio.to_thread(path.write_text, json.dumps(config), encoding="utf-8")
    return path


@asynccontextmanager
async def _made_ready(api: ApiServerControl, kubeconfig: Path) -> AsyncIterator[None]:
    """Wait for the API server, put the node into it, and write how to reach it."""
    await api.ready(timeout_seconds=SAID_SECONDS)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await api.create("nodes", {"metadata": {"name": NODE}, "status": ready})
    await asyncio.to_thread(kubeconfig.write_text, await api.kubeconfig(), encoding="utf-8")
    yield
