"""Kubeconfig files: tokens, client certificates, credential plugins, and what is refused."""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.adapters.kube.kubeconfig import KubeConfig
from gpushare_plugin.errors import ApiRefused, ApiUnavailable, ConfigError
from gpushare_plugin.sim.apiserver import Access, ApiServerSettings, Rule, SimApiServer, User
from tests.adapters import kube_certificates as certificates
from tests.adapters.kube_servers import Scripted, answer, client_of

AUTHORITY = base64.b64encode(certificates.AUTHORITY.encode()).decode()


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a file; JSON is YAML."""
    path = folder / "kubeconfig"
    if server.startswith("https:"):
        cluster = {"certificate-authority-data": AUTHORITY} | cluster
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "nowhere", "context": {"cluster": "none", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return path


def plugin(folder: Path, *, prints: str) -> dict[str, Any]:
    """A credential plugin that says what a file says at that moment."""
    (folder / "said").write_text(prints)
    script = f"import pathlib; print(pathlib.Path({str(folder / 'said')!r}).read_text())"
    api_version = "client.authentication.k8s.io/v1"
    call = {"command": sys.executable, "args": ["-c", script], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": api_version, **call}}


def credential(token: str) -> str:
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": token},
        }
    )


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[SimApiServer]:
    certificate = folder / "server.pem"
    certificate.write_text(certificates.SERVER + certificates.SERVER_KEY)
    async with SimApiServer(ApiServerSettings(tls_certificate=certificate)) as server:
        await server.create("nodes", {"metadata": {"name": "n"}})
        await server.set_access(accepted("good"))
        yield server


def accepted(token: str) -> Access:
    rule = Rule(verbs=("get",), resources=("nodes",))
    return Access(tokens={token: User(name="somebody")}, rules={"somebody": (rule,)})


async def test_a_token_of_the_file_opens_the_door(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        path = kubeconfig(tmp_path, server.address, {"token": "good"})
        async with client_of(KubeConfig(path, {})) as client:
            assert (await client.get_node("n")).name == "n"


async def test_a_credential_plugin_is_asked_and_asked_again_after_a_401(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        user = plugin(tmp_path, prints=credential("good"))
        credentials = KubeConfig(kubeconfig(tmp_path, server.address, user), {})
        async with client_of(credentials) as client:
            await client.get_node("n")

            (tmp_path / "said").write_text(credential("newer"))
            await server.set_access(accepted("newer"))
            await client.get_node("n")

        assert [call.status for call in server.calls()] == [200, 401, 200]


async def test_a_credential_plugin_that_fails_later_is_told(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        user = plugin(tmp_path, prints=credential("good"))
        credentials = KubeConfig(kubeconfig(tmp_path, server.address, user), {})
        (tmp_path / "said").write_text("nothing of use")
        await server.set_access(accepted("newer"))
        async with client_of(credentials) as client:
            with pytest.raises(ApiRefused, match="no credential plugin gave one"):
                await client.get_node("n")


async def test_a_client_certificate_of_the_file_is_shown(tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=certificates.AUTHORITY)
    context.verify_mode = ssl.CERT_REQUIRED
    (tmp_path / "server.pem").write_text(certificates.SERVER + certificates.SERVER_KEY)
    context.load_cert_chain(tmp_path / "server.pem")
    body = b'{"metadata":{"name":"n","uid":"u","resourceVersion":"1"}}'
    api = Scripted(replies=[answer(body)])
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        user = {
            "client-certificate-data": base64.b64encode(certificates.CLIENT.encode()).decode(),
            "client-key-data": base64.b64encode(certificates.CLIENT_KEY.encode()).decode(),
        }
        credentials = KubeConfig(kubeconfig(tmp_path, address, user), {})
        async with client_of(credentials) as client:
            assert (await client.get_node("n")).uid == "u"

    assert "Authorization" not in api.requests[0]


async def test_the_name_in_the_servers_certificate_may_be_given(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        user = {"token": "good"}
        other = {"tls-server-name": "api.test"}
        path = kubeconfig(tmp_path, server.address, user, **other)
        async with client_of(KubeConfig(path, {})) as client:
            await client.get_node("n")

        other = {"tls-server-name": "wrong.test"}
        path = kubeconfig(tmp_path, server.address, user, **other)
        async with client_of(KubeConfig(path, {})) as client:
            with pytest.raises(ApiUnavailable, match=r"not trusted: .*wrong\.test"):
                await client.get_node("n")


async def test_a_server_without_tls_needs_no_credentials(tmp_path: Path) -> None:
    async with SimApiServer() as server:
        await server.create("nodes", {"metadata": {"name": "n"}})
        path = kubeconfig(tmp_path, server.address, {})
        async with client_of(KubeConfig(path, {})) as client:
            assert (await client.get_node("n")).name == "n"


def test_the_proxy_is_the_files_or_else_that_of_the_environment_handed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://process:3")
    environ = {"HTTPS_PROXY": "http://environment:1"}
    server, user = "https://api.corp", {"token": "t"}

    named = {"proxy-url": "http://file:2"}
    assert _proxy(kubeconfig(tmp_path, server, user, **named), environ) == "http://file:2"
    assert _proxy(kubeconfig(tmp_path, server, user), environ) == "http://environment:1"
    assert _proxy(kubeconfig(tmp_path, server, user), {}) is None


def _proxy(path: Path, environ: dict[str, str]) -> str | None:
    return KubeConfig(path, environ).endpoint.proxy


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        pytest.param(
            {"token": "t"}, {"insecure-skip-tls-verify": True}, "we verify", id="insecure"
        ),
        pytest.param({}, {}, "no token and no certificate", id="anonymous"),
        pytest.param(
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-one"}},
            {},
            "no credential plugin gave one",
            id="plugin-missing",
        ),
        pytest.param(
            {"token": "t"},
            {"certificate-authority-data": base64.b64encode(b"no certificate").decode()},
            "its certificates: ",
            id="authority-garbled",
        ),
        pytest.param(
            {"client-certificate": "no-such-file", "client-key": "no-such-file"},
            {},
            "no-such-file",
            id="certificate-missing",
        ),
        pytest.param({"token": "t"}, {"proxy-url": "socks5://p"}, "expected http", id="proxy"),
    ],
)
def test_a_file_that_gives_no_usable_credentials_is_refused(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], told: str
) -> None:
    path = kubeconfig(tmp_path, "https://api.corp", user, **cluster)

    with pytest.raises(ConfigError, match=told):
        KubeConfig(path, {})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "a: [", "just words", '{"current-context": "x"}', "\x00"],
    ids=["empty", "list", "map", "broken", "words", "no-contexts", "binary"],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(ConfigError, match=f"kubeconfig {path}: "):
        KubeConfig(path, {})


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://api.corp", {"token": "t"})

    with pytest.raises(ConfigError, match="elsewhere"):
        KubeConfig(path, {}, context="elsewhere")
    with pytest.raises(ConfigError, match="none"):
        KubeConfig(path, {}, context="nowhere")
    with pytest.raises(ConfigError, match="kubeconfig"):
        KubeConfig(tmp_path / "missing", {})
