"""`gpushare extender` as a process: what it says, how it ends, and what stops its start."""

import json
import signal
from pathlib import Path

import pytest

from gpushare_plugin.sim.apiserver import SimApiServer
from tests.e2e.processes import daemon
from tests.extender.daemons import node_object, pod_object
from tests.extender.http_sites import PREFIX, ask

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


def arguments(api: SimApiServer, folder: Path, *more: str) -> list[str]:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(api.kubeconfig(), encoding="utf-8")
    off = ["--status-address", "off"]
    return ["extender", "--kubeconfig", str(kubeconfig), *off, *more]


ANY_PORT = ("--listen-address", "127.0.0.1:0")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_filters_and_binds_and_a_stop_is_orderly(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with SimApiServer() as api, daemon(arguments(api, tmp_path, *ANY_PORT)) as extender:
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await api.create("pods", pod_object("p", 4))
        await extender.said("synced")
        port = (await extender.said("listening"))["port"]
        url = f"http://127.0.0.1:{port}{PREFIX}"
        args = {"Pod": pod, "NodeNames": ["gpu-a"]}
        fits = await ask(f"{url}/filter", "POST", body=args)
        meta = pod["metadata"]
        binding = {"PodName": "p", "PodNamespace": "default", "PodUID": meta["uid"]}
        bound = await ask(f"{url}/bind", "POST", body=binding | {"Node": "gpu-a"})

        extender.send(number)
        code = await extender.exit_code()
        annotations = api.get("pods", "p")["metadata"]["annotations"]

    assert code == 0
    assert fits.json["NodeNames"] == ["gpu-a"]
    assert bound.json == {"Error": ""}
    assert annotations["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    assert extender.of("stopped")
    assert not [line for line in extender.lines if " error " in line or "Traceback" in line]


async def test_a_reload_serves_on_under_the_new_configuration(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text("policy: binpack\nlisten-address: 127.0.0.1:0\n")
    async with SimApiServer() as api:
        given = arguments(api, tmp_path, "--config", str(file))
        async with daemon(given) as extender:
            await extender.said("synced")
            file.write_text("policy: spread\nlisten-address: 127.0.0.1:0\n")
            extender.send(signal.SIGHUP)
            await extender.said("synced", times=2)
            port = (await extender.said("listening", times=2))["port"]

            assert (await ask(f"http://127.0.0.1:{port}/readyz")).status == 200
    assert [each["policy"] for each in extender.of("configuration")] == ["binpack", "spread"]


async def test_the_originals_variables_are_taken_and_told(tmp_path: Path) -> None:
    environ = {"PORT": "0", "THREADNESS": "4", "LOG_LEVEL": "debug"}
    async with (
        SimApiServer() as api,
        daemon(arguments(api, tmp_path), environ=environ) as extender,
    ):
        assert (await extender.said("listening"))["host"] == "127.0.0.1"
        told = [line["variable"] for line in extender.of("variable_of_the_original")]
        [configuration] = extender.of("configuration")

    assert told == ["PORT", "THREADNESS"]
    assert configuration["log-level"] == "debug"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--listen-address", "0.0.0.0:0"), "--plain-http"),
        (("--tls-certificate", "/none", "--tls-key", "/none"), "--tls-certificate"),
        (("--body-limit-mib", "0"), "expected a whole number from 1"),
    ],
)
async def test_what_cannot_be_served_stops_the_start(
    tmp_path: Path, more: tuple[str, ...], words: str
) -> None:
    async with SimApiServer() as api, daemon(arguments(api, tmp_path, *more)) as extender:
        assert await extender.exit_code() == 2

    assert words in "\n".join(extender.lines)
    assert "Traceback" not in "\n".join(extender.lines)


async def test_it_waits_for_an_api_server_that_is_away_at_the_start(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await api.create("pods", pod_object("p", 4))
        given = arguments(api, tmp_path, *ANY_PORT)
        await api.go_away()
        async with daemon(given) as extender:
            await extender.said("watch_failing", what="pods")
            port = (await extender.said("listening"))["port"]
            url = f"http://127.0.0.1:{port}{PREFIX}/filter"
            early = await ask(url, "POST", body={"Pod": pod, "NodeNames": ["gpu-a"]})
            await api.come_back()
            await extender.said("synced")
            late = await ask(url, "POST", body={"Pod": pod, "NodeNames": ["gpu-a"]})

    assert "does not know the cluster yet" in early.json["Error"]
    assert json.loads(late.text)["NodeNames"] == ["gpu-a"]
