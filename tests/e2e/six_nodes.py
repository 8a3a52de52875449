"""A cluster of six nodes with different cards, and everything that places and runs pods there.

Our programs are processes: an extender and six node daemons, any of which may be killed. Their
peers are here: API server, kube-scheduler, kubelets. All of them speak through sockets.
"""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpushare_plugin.sim.apiserver import ApiServerSettings, SimApiServer
from gpushare_plugin.sim.kubelet import KubeletSettings, SimKubelet
from gpushare_plugin.sim.scheduler import SchedulerSettings, SimScheduler
from tests.e2e.agreement import CARDS, CardWatch, Json, NodeCards, cards_of, is_live
from tests.e2e.api_kubelets import ApiKubelets
from tests.e2e.processes import HANGS_SECONDS, DaemonProcess, daemon
from tests.e2e.workload import RESOURCE, PodPlan
from tests.recordings import REPOSITORY

SYSTEM = "system driver=570.124.06 cuda=12080\n"
ONE_L4 = (
    'gpu uuid=GPU-4d2a7c10-51f3-4c0e-8b6d-90a3c1e57f28 name="NVIDIA L4" total_mib=23034 minor=0\n'
)
THREE_A10 = "".join(
    f'gpu uuid=GPU-{n}e81b2f4-7a6c-4d35-a1f0-3c92d8b7e4{n}0 name="NVIDIA A10"'
    f" total_mib=24564 minor={n}\n"
    for n in range(3)
)
MACHINES = {
    "gpu-a": "t4-x2",
    "gpu-b": "mixed",
    "gpu-c": "a100-pcie-x4",
    "gpu-d": "mig",
    "gpu-e": SYSTEM + ONE_L4,
    "gpu-f": SYSTEM + THREE_A10,
}
"""What each node has: a profile's name, or its text."""
EXTENDER_ADDRESS = "127.0.0.1:39999"
"""Where the manifest has the extender."""


@dataclass(kw_only=True)
class SixNodes:
    """What a test does to the cluster, and sees of it."""

    folder: Path
    api: SimApiServer
    kubelets: dict[str, SimKubelet]
    stack: AsyncExitStack
    plans: dict[str, PodPlan] = field(default_factory=dict)
    cards: dict[str, NodeCards] = field(default_factory=dict)
    daemons: dict[str, DaemonProcess] = field(default_factory=dict)
    killed: dict[str, DaemonProcess] = field(default_factory=dict)
    """Daemons of an earlier life."""
    watch: CardWatch = field(init=False)
    driver: ApiKubelets = field(init=False)
    scheduler: SimScheduler = field(init=False)
    extender: DaemonProcess = field(init=False)
    address: str = "127.0.0.1:0"

    # ------------------------------------------------------------------------ programs

    async def start_extender(self) -> None:
        """Start it; a second time on the same port."""
        kubeconfig = ["--kubeconfig", str(self.folder / "kubeconfig")]
        listening = ["--listen-address", self.address, "--status-address", "off"]
        self.extender = await self.stack.enter_async_context(
            daemon(["extender", *kubeconfig, *listening])
        )
        self.address = f"127.0.0.1:{(await self.extender.said('listening'))['port']}"
        await self.extender.said("synced")

    async def start_daemon(self, node_name: str) -> None:
        """Start a node's daemon; return once its kubelet has its cards."""
        folder, machine = self.folder / node_name, MACHINES[node_name]
        if machine.startswith("system"):
            (folder / "profile").write_text(machine, encoding="utf-8")
            machine = str(folder / "profile")
        settings = self.kubelets[node_name].settings
        arguments = {
            "node-name": node_name,
            "kubeconfig": self.folder / "kubeconfig",
            "simulate": machine,
            "plugin-dir": settings.plugin_dir,
            "pod-resources-socket": settings.pod_resources_socket,
            "status-address": "off",
            "mig": "shared",
        }
        self.daemons[node_name] = await self.stack.enter_async_context(
            daemon(
                ["node", *(f"--{key}={value}" for key, value in arguments.items())],
                environ={"GPUSHARE_WITHOUT_CLUSTER": "off"},
            )
        )

    async def kill_extender(self) -> None:
        await _killed(self.extender)

    async def kill_daemon(self, node_name: str) -> None:
        self.killed[node_name] = self.daemons.pop(node_name)
        await _killed(self.killed[node_name])

    async def until_daemon(self, node_name: str, *, serves: bool) -> None:
        """Wait until the node shows its units, or none."""

        def holds(node: Json) -> bool:
            shown = int(node["status"].get("allocatable", {}).get(RESOURCE, "0"))
            units = sum(self.cards[node_name].units) if serves else 0
            return shown == units

        await self.api.until_object("nodes", node_name, holds, timeout_seconds=HANGS_SECONDS)

    def programs(self) -> list[DaemonProcess]:
        """Those of ours that run."""
        return [self.extender, *self.daemons.values()]

    def slow_nodes(self) -> set[str]:
        """Where a daemon did not learn in time whose call one was: too much runs here."""
        lives = (*self.daemons.items(), *self.killed.items())
        return {
            name
            for name, each in lives
            if each.of("allocated", pod="unknown") or each.of("pod_guessed")
        }

    # ---------------------------------------------------------------------------- pods

    async def create(self, plan: PodPlan) -> None:
        self.plans[plan.name] = plan
        await self.api.create("pods", plan.object)

    async def delete(self, name: str) -> None:
        """Delete a pod: at once while it waits, else its kubelet has to end it."""
        # No await that gives way between the look and the deletion.
        if self.api.get("pods", name)["spec"].get("nodeName"):
            await self.api.terminate_pod(name)
        else:
            await self.api.delete("pods", name)

    def names(self) -> list[str]:
        """The pods that are not on their way out."""
        return [
            pod["metadata"]["name"]
            for pod in self.api.objects("pods")
            if "deletionTimestamp" not in pod["metadata"]
        ]

    def live(self) -> list[Json]:
        """The pods that hold something."""
        return [pod for pod in self.api.objects("pods") if is_live(pod)]

    def waiting(self) -> list[str]:
        """The pods that have no node."""
        return [
            pod["metadata"]["name"]
            for pod in self.api.objects("pods")
            if not pod["spec"].get("nodeName")
        ]


async def _killed(process: DaemonProcess) -> None:
    process.send(signal.SIGKILL)
    assert await process.exit_code() == -signal.SIGKILL


@asynccontextmanager
async def six_nodes(folder: Path, *, seed: int) -> AsyncIterator[SixNodes]:
    """Run the cluster; it is there once every node shows its cards and the scheduler leads."""
    async with AsyncExitStack() as stack:
        settings = ApiServerSettings(managed_fields_bytes=0, grace_enforced=False)
        api = await stack.enter_async_context(SimApiServer(settings))
        (folder / "kubeconfig").write_text(api.kubeconfig(), encoding="utf-8")
        kubelets = {
            name: await stack.enter_async_context(_kubelet(api, folder / name, seed))
            for name in MACHINES
        }
        cluster = SixNodes(folder=folder, api=api, kubelets=kubelets, stack=stack)
        cluster.watch = CardWatch(cluster.plans, cluster.cards)
        cluster.driver = ApiKubelets(api, kubelets, cluster.watch.seen)
        driving = asyncio.create_task(cluster.driver.run(), name="be the kubelets")
        try:
            await asyncio.gather(
                cluster.start_extender(), *(cluster.start_daemon(name) for name in MACHINES)
            )
            for name in MACHINES:
                node = await api.until_object(
                    "nodes", name, _has_cards, timeout_seconds=HANGS_SECONDS
                )
                cluster.cards[name] = cards_of(node)
                await cluster.until_daemon(name, serves=True)
            cluster.scheduler = await stack.enter_async_context(
                SimScheduler(_scheduler(folder, cluster.address, seed))
            )
            await cluster.scheduler.leading()
            yield cluster
            # All at a time: one after the other they take seconds.
            codes = await asyncio.gather(*(each.stop() for each in cluster.programs()))
            assert not any(codes), codes
        finally:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
        assert driving.cancelled(), driving.exception()


@asynccontextmanager
async def _kubelet(api: SimApiServer, folder: Path, seed: int) -> AsyncIterator[SimKubelet]:
    folder.mkdir()  # noqa: ASYNC240  # nothing else runs yet
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    status: dict[str, Any] = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    await api.create("nodes", {"metadata": {"name": folder.name}, "status": status})
    settings = KubeletSettings(
        plugin_dir=folder / "plugins",
        pod_resources_socket=folder / "pods.sock",
        rpc_log_entries=10,
        seed=seed,
    )
    async with SimKubelet(settings) as kubelet:
        yield kubelet


def _scheduler(folder: Path, extender: str, seed: int) -> SchedulerSettings:
    """The configuration is the manifest's, but for the extender's port; only waiting is shorter."""
    manifest = REPOSITORY / "deploy" / "extender" / "sidecar.yaml"
    [text] = re.findall(
        r"\n( +apiVersion: kubescheduler.config.k8s.io/v1\n.*?)\n---",
        manifest.read_text(),
        re.DOTALL,
    )
    config = yaml.safe_load(text.replace(EXTENDER_ADDRESS, extender))
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return SchedulerSettings(
        kubeconfig=folder / "kubeconfig",
        config=folder / "scheduler.yaml",
        backoff_scale=0.01,
        unschedulable_seconds=1.0,
        watch_retry_seconds=0.05,
        seed=seed,
    )


def _has_cards(node: Json) -> bool:
    return CARDS in (node["metadata"].get("annotations") or {})
