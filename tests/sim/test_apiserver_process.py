"""The server as a process of its own, and what it can be told at its start."""

import asyncio
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from gpushare_plugin.sim.apiserver import (
    ApiServerControl,
    ApiServerSettings,
    SimApiServer,
    TooOld,
    WaitExpiredError,
)
from tests.sim.apiserver_peers import NODES, node, running


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpushare_plugin.sim.apiserver",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def test_a_process_of_its_own_tells_its_address_and_ends_cleanly_on_sigterm(
    short_path: Path,
) -> None:
    path = short_path / "c.sock"
    arguments = ("--control-socket", str(path), "--too-old", "http", "--no-grace-enforced")
    async with process("--port", "0", *arguments) as child:
        control = ApiServerControl(path)
        state = await control.ready()
        await control.create("nodes", node("n"))
        async with (
            aiohttp.ClientSession() as client,
            client.get(state.address + NODES) as response,
        ):
            items = (await response.json())["items"]
        assert child.stdout is not None
        line = (await child.stdout.readline()).decode()
        child.send_signal(signal.SIGTERM)
        _, complaints = await child.communicate()

        assert line == f"the simulated API server is up at {state.address}\n"
        assert [item["metadata"]["name"] for item in items] == ["n"]
        assert (child.returncode, complaints) == (0, b"")
        assert not path.exists()


async def test_waiting_for_a_process_that_never_comes_up_expires(short_path: Path) -> None:
    with pytest.raises(WaitExpiredError, match="nobody serves the control socket"):
        await ApiServerControl(short_path / "c.sock").ready(timeout_seconds=0.05)


# ------------------------------------------------------------------------------ settings


def test_the_defaults_are_those_of_the_real_server() -> None:
    settings = ApiServerSettings()

    assert settings.too_old is TooOld.EVENT
    assert (settings.bookmark_seconds, settings.grace_scale) == (60.0, 1.0)


async def test_a_port_that_is_given_is_used() -> None:
    async with running() as api:
        port = int(api.server.address.rpartition(":")[2])
    async with running(ApiServerSettings(port=port)) as api:
        assert api.server.address == f"http://127.0.0.1:{port}"


async def test_a_port_that_another_program_has_is_an_error() -> None:
    server = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="Address already in use"):
            async with running(ApiServerSettings(port=port)):
                pass


@pytest.fixture
def certificate(short_path: Path) -> tuple[Path, Path]:
    """A certificate for the loopback address, and its key."""
    certificate, key = short_path / "tls.crt", short_path / "tls.key"
    arguments = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", *arguments, *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


async def test_with_a_certificate_the_server_speaks_tls(certificate: tuple[Path, Path]) -> None:
    settings = ApiServerSettings(tls_certificate=certificate[0], tls_key=certificate[1])
    trusting = ssl.create_default_context(cafile=certificate[0])
    async with (
        SimApiServer(settings) as server,
        aiohttp.ClientSession() as client,
        client.get(f"{server.address}/healthz", ssl=trusting) as response,
    ):
        text = await response.text()
        kubeconfig = yaml.safe_load(server.kubeconfig())

    assert (server.settings, text) == (settings, "ok")
    assert kubeconfig["clusters"][0]["cluster"]["certificate-authority"] == str(certificate[0])
