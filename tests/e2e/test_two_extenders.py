"""Two extenders as processes over one API server: the leader is killed, or stands still."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import SimApiServer
from tests.e2e.processes import DaemonProcess, daemon
from tests.extender.daemons import node_object, pod_object
from tests.extender.http_sites import PREFIX, ask

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

NAMESPACE = "kube-system"
NAMES = ("gpushare-a", "gpushare-b")
TAKES_OVER_SECONDS = 25.0


async def started(
    api: SimApiServer, folder: Path, stack: AsyncExitStack, name: str
) -> DaemonProcess:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(api.kubeconfig(), encoding="utf-8")
    metadata = {"namespace": NAMESPACE}
    await api.create("pods", pod_object(name, metadata=metadata))
    arguments = ["extender", "--kubeconfig", str(kubeconfig), "--status-address", "off"]
    arguments += ["--listen-address", "127.0.0.1:0", "--leader-elect"]
    arguments += ["--pod-name", name, "--pod-namespace", NAMESPACE]
    return await stack.enter_async_context(daemon(arguments))


async def url(extender: DaemonProcess) -> str:
    return f"http://127.0.0.1:{(await extender.said('listening'))['port']}{PREFIX}"


async def comes_to_serve(extender: DaemonProcess, pod: dict[str, Any]) -> None:
    body = {"Pod": pod, "NodeNames": ["gpu-a"]}
    async with asyncio.timeout(TAKES_OVER_SECONDS):
        while True:
            answer = await ask(f"{await url(extender)}/filter", "POST", body=body)
            if answer.status == 200 and answer.json["NodeNames"] == ["gpu-a"]:
                return
            await asyncio.sleep(0.1)


def labelled(api: SimApiServer) -> list[str]:
    pods = (api.get("pods", name, namespace=NAMESPACE) for name in NAMES)
    with_label = (pod for pod in pods if "gpushare.io/leader" in pod["metadata"].get("labels", {}))
    return [pod["metadata"]["name"] for pod in with_label]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_other_takes_over_and_what_the_first_bound_counts(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with SimApiServer() as api, AsyncExitStack() as stack:
        await api.create("nodes", node_object("gpu-a", 8, 1))
        pods = [await api.create("pods", pod_object(f"p{n}", 4)) for n in range(3)]
        first = await started(api, tmp_path, stack, NAMES[0])
        await comes_to_serve(first, pods[0])
        second = await started(api, tmp_path, stack, NAMES[1])
        await second.said("synced")
        assert await bound(first, pods[0]) == ""

        first.send(number)
        await comes_to_serve(second, pods[1])
        assert await bound(second, pods[1]) == ""
        assert "no card of gpu-a has 4" in await bound(second, pods[2])
        await api.until(
            lambda: labelled(api) == [NAMES[1]],
            failure=lambda: f"labelled: {labelled(api)}",
            timeout_seconds=15.0,
        )
        if number is signal.SIGSTOP:
            os.kill(first.pid, signal.SIGCONT)
            answer = await ask(f"{await url(first)}/bind", "POST", body=binding(pods[2]))
            assert answer.status == 503


def binding(pod: dict[str, Any]) -> dict[str, str]:
    meta = pod["metadata"]
    return {
        "PodName": meta["name"],
        "PodNamespace": meta["namespace"],
        "PodUID": meta["uid"],
        "Node": "gpu-a",
    }


async def bound(extender: DaemonProcess, pod: dict[str, Any]) -> str:
    """Bind, and return the error."""
    answer = await ask(f"{await url(extender)}/bind", "POST", body=binding(pod))
    return str(answer.json["Error"])
