"""The scheduler as a process of its own, its leader election, and its configuration."""

import asyncio
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.scheduler import (
    ConfigurationError,
    SchedulerControl,
    SimScheduler,
    WaitExpiredError,
)
from gpushare_plugin.sim.scheduler.configuration import read_configuration
from tests.sim.scheduler_peers import (
    MEMORY,
    Json,
    StubExtender,
    configuration,
    extender_of,
    files,
    node,
    pod,
    world,
)

ELECTION = {
    "leaderElect": True,
    "leaseDuration": "1s",
    "renewDeadline": "500ms",
    "retryPeriod": "50ms",
}
LEASE = "kube-scheduler"


@asynccontextmanager
async def process(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpushare_plugin.sim.scheduler"),
        *("--kubeconfig", str(folder / "kubeconfig"), "--config", str(folder / "scheduler.yaml")),
        *("--control-socket", str(folder / "c.sock"), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def test_a_process_of_its_own_is_driven_over_its_socket(short_path: Path) -> None:
    async with SimApiServer() as server, StubExtender() as stub:
        await server.create("nodes", node("a"))
        config = configuration(extender_of(stub, bindVerb=""), leaderElection=ELECTION)
        files(short_path, server, config)
        arguments = ("--no-requeue-on-delete", "--seed", "7", "--identity", "one")
        async with process(short_path, *arguments) as child:
            control = SchedulerControl(short_path / "c.sock")
            await control.ready(timeout_seconds=10)
            state = await control.leading()
            await control.pause()
            await server.create("pods", pod("p", units=4))
            while not (state := await control.newer_state(state.version)).active:
                pass
            await control.resume()
            outcome = await control.attempted("default/p")
            idle = await control.idle(known=("default/p",))
            (call,) = await control.calls()
            with pytest.raises(WaitExpiredError, match="no attempt 9 at default/p"):
                await control.attempted("default/p", attempt=9, timeout_seconds=0.01)
            assert child.stdout is not None
            line = (await child.stdout.readline()).decode()
            child.send_signal(signal.SIGTERM)
            _, complaints = await child.communicate()
        lease = server.get("leases", LEASE, namespace="kube-system")

    assert (state.identity, state.paused, state.active[0].pod) == ("one", True, "default/p")
    assert (outcome.node, idle.counts["bound"]) == ("a", 1)
    assert call.request_json["NodeNames"] == ["a"]
    assert line == "the simulated scheduler is up\n"
    assert (child.returncode, complaints) == (0, b"")
    assert lease["spec"]["holderIdentity"] == ""


async def test_a_configuration_that_is_wrong_ends_the_process_with_the_cause(
    short_path: Path,
) -> None:
    async with SimApiServer() as server:
        files(short_path, server, configuration(speed="high"))
        async with process(short_path) as child:
            _, complaints = await child.communicate()

    assert child.returncode == 1
    assert b'strict decoding error: unknown field "speed"' in complaints


# ----------------------------------------------------------------------------- election


async def test_of_two_schedulers_one_leads_and_the_other_follows_it(tmp_path: Path) -> None:
    config = configuration(leaderElection=ELECTION)
    async with SimApiServer() as server:
        await server.create("nodes", node("a"))
        one = SimScheduler(files(tmp_path, server, config, identity="one"))
        two = SimScheduler(files(tmp_path, server, config, identity="two"))
        async with two:
            async with one:
                await one.until(
                    lambda: one.state().leads or two.state().leads, failure=lambda: "no leader"
                )
                await two.until(lambda: two.state().synced, failure=lambda: "not synced")
                first, second = (one, two) if one.state().leads else (two, one)
                await server.create("pods", pod("p"))
                await first.attempted("default/p")
                assert not second.state().leads
                assert second.state().outcomes == {}
            # The one that stopped has given its lease back.
            await two.leading()
            await server.create("pods", pod("q"))
            assert (await two.attempted("default/q")).node == "a"
        lease = server.get("leases", LEASE, namespace="kube-system")

    assert lease["spec"]["leaseTransitions"] >= (1 if first is one else 0)


async def test_the_lease_of_one_that_is_gone_is_taken_after_its_duration(tmp_path: Path) -> None:
    config = configuration(leaderElection=ELECTION)
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 1, "leaseTransitions": 4}
    async with SimApiServer() as server:
        metadata = {"name": LEASE, "namespace": "kube-system"}
        await server.create("leases", {"metadata": metadata, "spec": spec})
        async with SimScheduler(files(tmp_path, server, config, identity="next")) as scheduler:
            await scheduler.leading()
            found = server.get("leases", LEASE, namespace="kube-system")["spec"]

    assert (found["holderIdentity"], found["leaseTransitions"]) == ("next", 5)


async def test_a_leader_that_cannot_renew_stops_scheduling(tmp_path: Path) -> None:
    config = configuration(leaderElection=ELECTION)
    async with (
        SimApiServer() as server,
        SimScheduler(files(tmp_path, server, config)) as scheduler,
    ):
        await scheduler.leading()
        await server.go_away()
        await scheduler.until(lambda: not scheduler.state().leads, failure=lambda: "it still leads")
        await server.come_back()
        await scheduler.leading()


# ------------------------------------------------------------------------ configuration


def test_a_file_is_read_as_the_real_scheduler_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    extender = {
        "urlPrefix": "https://127.0.0.1:1/x",
        "filterVerb": "filter",
        "prioritizeVerb": "rank",
        "weight": 5,
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": {"insecure": True, "serverName": "x"},
        "httpTimeout": "1m1.5s",
        "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
    }
    profiles = [{"schedulerName": "gpu"}]
    text = yaml.safe_dump(configuration(extender, profiles=profiles))
    path.write_text(text, encoding="utf-8")
    found = read_configuration(path)
    (read,) = found.extenders

    assert found.scheduler_name == "gpu"
    assert (found.initial_backoff_seconds, found.max_backoff_seconds) == (1.0, 10.0)
    assert (read.weight, read.http_timeout_seconds) == (5, 61.5)
    assert read.managed == read.left_to_it == frozenset({MEMORY})
    assert (read.tls.insecure, read.tls.server_name) == (True, "x")


URL = {"urlPrefix": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ({"kind": "Policy"}, "expected KubeSchedulerConfiguration"),
        (configuration(URL | {"bindverb": "b"}), 'unknown field "extenders[0].bindverb"'),
        (configuration({"filterVerb": "f"}), "extenders[0].urlPrefix"),
        (configuration(URL | {"prioritizeVerb": "p"}), "must have a positive weight"),
        (configuration(URL | {"bindVerb": "b"}, URL | {"bindVerb": "b"}), "found 2 extenders"),
        (configuration(URL | {"httpTimeout": "5"}), 'invalid duration "5"'),
        (
            configuration(*(URL | {"managedResources": [{"name": "x/y"}]},) * 2),
            "duplicate extender managed resource name x/y",
        ),
        (configuration(profiles=[{}, {}]), "found 2, expected one"),
        (
            configuration(leaderElection={"renewDeadline": "20s"}),
            "leaseDuration > renewDeadline",
        ),
    ],
)
def test_what_the_real_scheduler_refuses_is_refused(tmp_path: Path, text: Any, told: str) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(text), encoding="utf-8")

    with pytest.raises(ConfigurationError) as caught:
        read_configuration(path)

    assert told in str(caught.value)
    assert str(path) in str(caught.value)


# -------------------------------------------------------------------------------- TLS


@pytest.fixture
def certificate(short_path: Path) -> tuple[Path, Path]:
    """A certificate for a name that the address is not, and its key."""
    certificate, key = short_path / "tls.crt", short_path / "tls.key"
    arguments = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=extender.test", "-addext", "subjectAltName=DNS:extender.test"]
    output = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", *arguments, *names, *output]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize("mutual", [False, True])
async def test_an_extender_over_tls_is_verified_by_its_ca_and_name(
    tmp_path: Path,
    certificate: tuple[Path, Path],
    mutual: bool,
) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(*certificate)
    tls: Json = {"caFile": str(certificate[0]), "serverName": "extender.test"}
    if mutual:
        served.verify_mode = ssl.CERT_REQUIRED
        served.load_verify_locations(certificate[0])
        tls |= {"certFile": str(certificate[0]), "keyFile": str(certificate[1])}
    fields = {"enableHTTPS": True, "tlsConfig": tls}
    stub = StubExtender(tls=served)
    async with world(tmp_path, node("a"), extender=fields, stub=stub) as made:
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "a"


async def test_https_without_a_ca_verifies_nothing(
    tmp_path: Path,
    certificate: tuple[Path, Path],
) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(*certificate)
    stub = StubExtender(tls=served)
    async with world(tmp_path, node("a"), extender={"enableHTTPS": True}, stub=stub) as made:
        await made.server.create("pods", pod("p", units=4))

        assert await made.bound("p") == "a"


async def test_a_certificate_for_another_name_is_refused(
    tmp_path: Path,
    certificate: tuple[Path, Path],
) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(*certificate)
    fields = {"enableHTTPS": True, "tlsConfig": {"caFile": str(certificate[0])}}
    stub = StubExtender(tls=served)
    async with world(tmp_path, node("a"), extender=fields, stub=stub, backoff_scale=99.0) as made:
        await made.server.create("pods", pod("p", units=4))
        outcome = await made.scheduler.attempted("default/p")

    assert "certificate" in outcome.message.lower()
