"""The cluster of the benchmarks: a simulated API server in a process of its own.

Rule: what a scheduler and the node's kubelet would write there is written here.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.processes import BenchError, Measured, running
from bench.subjects import NODE, RESOURCE, UP_SECONDS, ServiceAccount, Side, admit_pods
from gpushare_plugin.adapters.kube.credentials import Credentials, Fixed
from gpushare_plugin.sim.apiserver import ApiServerControl, SimApiServerError, WaitExpiredError
from gpushare_plugin.sim.kubelet import ContainerSpec, PodSpec

TOKEN = "bench"  # noqa: S105  # the simulated API server takes any
WAITING_POD = "waiting"
CHOSEN_CARD = 7
"""The card that an extender chose for the pod that waits; the pods before it leave it free."""
ALLOCATION = "gpushare.io/allocation"
PUBLISHED_SECONDS = 60.0
CHURN_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An API server, and how a client reaches it."""

    api: ApiServerControl
    account: ServiceAccount
    kubeconfig: Path
    process: Measured

    def credentials(self) -> Credentials:
        """Return a client's of this process."""
        authority = (self.account.folder / "ca.crt").read_text(encoding="ascii")
        return Fixed(self.account.address, token=TOKEN, ca_pem=authority)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Run an API server that speaks TLS, and has the node's object and no pod."""
    with tempfile.TemporaryDirectory(prefix="gsb", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        control, log = folder / "api", folder / "api.log"
        certificate, key = await _certificate(folder)
        tls = ("--tls-certificate", str(certificate), "--tls-key", str(key))
        arguments = ("--control-socket", str(control), *tls)
        async with running("gpushare_plugin.sim.apiserver", *arguments, log=log) as process:
            api = ApiServerControl(control)
            try:
                state = await api.ready(timeout_seconds=UP_SECONDS)
            except SimApiServerError as error:
                raise BenchError(f"{error}\n{process.said()}") from error
            await api.create("nodes", {"metadata": {"name": NODE}})
            kubeconfig = folder / "kubeconfig"
            text = await api.kubeconfig(token=TOKEN)
            await asyncio.to_thread(kubeconfig.write_text, text, encoding="utf-8")
            account = ServiceAccount(address=state.address, folder=folder)
            yield Cluster(api=api, account=account, kubeconfig=kubeconfig, process=process)


def pod(
    name: str, *, units: int, node: str, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a pod's object, whose UID is its name."""
    asked = {RESOURCE: str(units)}
    return {
        "metadata": {"name": name, "uid": name, "annotations": annotations or {}},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "image": "work", "resources": {"limits": asked, "requests": asked}}
            ],
        },
        "status": {"phase": "Pending"},
    }


async def others(api: ApiServerControl, count: int) -> None:
    """Let so many pods of 8 KB exist on other nodes."""
    template = pod("other-{n}", units=8, node="node-{n}")
    (container,) = template["spec"]["containers"]
    container["env"] = [{"name": f"SETTING_{n}", "value": "x" * 100} for n in range(54)]
    await api.create_many("pods", template, count)


async def pods_on_node(api: ApiServerControl, side: Side, count: int, *, units: int) -> None:
    """Let pods come that hold units, and wait until the daemon has published them."""
    await api.create_many("pods", pod("pod-{n}", units=units, node=NODE), count)
    await admit_pods(side, count, units=units)
    try:
        async with asyncio.timeout(PUBLISHED_SECONDS):
            while True:
                version = (await api.state()).version
                if await _published(api, count):
                    break
                await api.newer_state(version, timeout_seconds=PUBLISHED_SECONDS)
    except (TimeoutError, WaitExpiredError):
        raise BenchError(f"not all pods were published\n{side.plugin.said()}") from None
    for number in range(count):
        await api.set_pod_phase(f"pod-{number}", "Running")


@asynccontextmanager
async def churn(api: ApiServerControl, count: int) -> AsyncIterator[None]:
    """Meanwhile take the published allocation off one pod after the other.

    The daemon is told of each by its watch, and publishes it again.
    """

    async def forget() -> None:
        for number in cycle(range(count)):
            change = {"metadata": {"annotations": {ALLOCATION: None}}}
            await api.patch("pods", f"pod-{number}", change)
            await asyncio.sleep(CHURN_SECONDS)

    async with asyncio.TaskGroup() as tasks:
        forgetting = tasks.create_task(forget(), name="churn")
        try:
            yield
        finally:
            forgetting.cancel()


async def pod_waits(side: Side) -> None:
    """Let a pod wait on the node; the API server does not know it yet.

    The kubelet lists it and gives it nothing, so that it waits for as long as calls are timed.
    """
    main = ContainerSpec(name="main")
    await side.kubelet.admit(PodSpec(name=WAITING_POD, uid=WAITING_POD, containers=(main,)))


async def waiting_pod_is_told(api: ApiServerControl, *, units: int) -> None:
    """Let the watch tell of the pod that waits: an extender chose its card."""
    choice = {
        "ALIYUN_COM_GPU_MEM_IDX": str(CHOSEN_CARD),
        "ALIYUN_COM_GPU_MEM_POD": str(units),
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1",
        "gpushare.io/extender": "1",
    }
    await api.create("pods", pod(WAITING_POD, units=units, node=NODE, annotations=choice))


async def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make what a service account's folder has; return the server's certificate and key."""
    certificate, key = folder / "ca.crt", folder / "server.key"
    await asyncio.to_thread((folder / "token").write_text, TOKEN, encoding="ascii")
    arguments = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    try:
        made = await asyncio.create_subprocess_exec(
            *("openssl", "req", "-x509", *arguments, *names, *files),
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise BenchError(
            f"the program openssl makes the API server's certificate: {error}"
        ) from None
    _, said = await made.communicate()
    if made.returncode != 0:
        raise BenchError(f"no certificate for the API server: {said.decode(errors='replace')}")
    return certificate, key


async def _published(api: ApiServerControl, count: int) -> bool:
    for number in range(count):
        found = await api.get("pods", f"pod-{number}")
        if ALLOCATION not in (found["metadata"].get("annotations") or {}):
            return False
    return True
