"""The extender's daemon beside a simulated API server: what it shows, and when it refuses."""

from pathlib import Path

import pytest

from gpushare_plugin.app.extender import ExtenderDaemon
from gpushare_plugin.config import load_extender_config
from gpushare_plugin.errors import ConfigError, ListenError
from gpushare_plugin.sim.apiserver import Fault, FaultKind, SimApiServer
from tests.extender.certificates import Authority, served
from tests.extender.daemons import extender_beside, node_object, pod_object
from tests.extender.http_sites import ask
from tests.node.event_log import EventLog


async def test_the_status_pages_have_an_address_of_their_own_without_the_verbs(
    tmp_path: Path, log: EventLog
) -> None:
    async with (
        SimApiServer() as api,
        extender_beside(api, tmp_path, log, status_address="127.0.0.1:0"),
    ):
        ports = {said["port"] for said in [await log.said("listening", times=n) for n in (1, 2)]}
        pages = [
            [(await ask(f"http://127.0.0.1:{port}{path}")).status for port in sorted(ports)]
            for path in ("/healthz", "/readyz", "/metrics", "/gpushare-scheduler/inspect")
        ]

    assert pages[:3] == [[200, 200]] * 3
    assert sorted(pages[3]) == [200, 404]


async def test_metrics_show_the_account_and_the_binds(tmp_path: Path, log: EventLog) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await extender.create(pod_object("p", 4))
        await extender.comes_to_fit(pod, "gpu-a", fits=True)
        await extender.bind(pod, "gpu-a")
        await extender.comes_to_use("gpu-a", (4, ["p"]), (0, []))
        text = (await extender.page("/metrics")).text

    for line in (
        "gpushare_extender_units 46.0",
        "gpushare_extender_used_units 4.0",
        "gpushare_extender_nodes 1.0",
        "gpushare_extender_pods 1.0",
        "gpushare_extender_leads 1.0",
        'gpushare_extender_binds_total{outcome="bound"} 1.0',
        'gpushare_extender_assumptions{state="doubtful"} 0.0',
    ):
        assert line in text.splitlines()
    assert 'gpushare_extender_watch_stale_seconds{what="pods"}' in text


async def test_it_is_not_ready_and_places_nothing_before_it_knows_the_pods(
    tmp_path: Path, log: EventLog
) -> None:
    """Without the pods every card looks free."""
    async with SimApiServer() as api:
        pod = await api.create("pods", pod_object("p", 4))
        await api.create("nodes", node_object("gpu-a", 46, 2))
        fault = await api.inject(Fault(kind=FaultKind.STATUS, verbs=("list",), resource="pods"))
        async with extender_beside(api, tmp_path, log, synced=False) as extender:
            await log.said("watch_failing", what="pods")
            await log.said("watch_works", what="nodes")
            answer = await extender.filter(pod, "gpu-a")
            ready = await extender.page("/readyz")

            assert "does not know the cluster yet" in answer["Error"]
            assert (ready.status, ready.text) == (503, "pods: not listed yet\n")

            await api.lift(fault)
            await log.said("synced")
            assert (await extender.filter(pod, "gpu-a"))["NodeNames"] == ["gpu-a"]


async def test_b87_once_the_api_server_is_silent_for_too_long_it_places_nothing(
    tmp_path: Path, log: EventLog
) -> None:
    async with (
        SimApiServer() as api,
        extender_beside(api, tmp_path, log, stale_seconds="2") as extender,
    ):
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await extender.create(pod_object("p", 4))
        await extender.comes_to_fit(pod, "gpu-a", fits=True)
        await api.go_away()
        await extender.comes_to_fit(pod, "gpu-a", fits=False)
        answer = await extender.filter(pod, "gpu-a")
        bound = await extender.bind(pod, "gpu-a")

    assert "--stale-seconds" in answer["Error"]
    assert "--stale-seconds" in bound.json["Error"]


async def test_it_serves_with_tls_to_who_shows_a_certificate(tmp_path: Path, log: EventLog) -> None:
    authority = Authority(tmp_path, "authority")
    files = served(tmp_path / "tls", authority.signs("server"), authority).files
    settings = {
        "tls_certificate": str(files.certificate),
        "tls_key": str(files.key),
        "tls_client_ca": str(files.client_ca),
    }
    async with (
        SimApiServer() as api,
        extender_beside(api, tmp_path, log, synced=True, **settings) as extender,
    ):
        client = authority.trusted(authority.signs("scheduler"))
        answer = await ask(f"{extender.url}/healthz", tls=client)

    assert answer.status == 200


async def run(folder: Path, api: SimApiServer, **settings: str) -> None:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(api.kubeconfig(), encoding="utf-8")
    given = {"kubeconfig": str(kubeconfig), "status_address": "off", **settings}
    await ExtenderDaemon(load_extender_config(given, {})).run()


async def test_certificate_files_that_do_not_work_stop_the_start(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    async with SimApiServer() as api:
        with pytest.raises(ExceptionGroup) as caught:
            await run(tmp_path, api, tls_certificate=none, tls_key=none)

    assert caught.group_contains(ConfigError, match="--tls-certificate")


async def test_an_address_that_is_taken_stops_the_start(tmp_path: Path, log: EventLog) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        address = extender.url.removeprefix("http://")
        with pytest.raises(ExceptionGroup) as caught:
            await run(tmp_path, api, listen_address=address)

    assert caught.group_contains(ListenError, match="in use")
