"""Who we are to the API server: a service account whose files turn under us, and TLS."""

import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpushare_plugin.adapters.kube.credentials import Fixed, InCluster
from gpushare_plugin.adapters.kube.sources import PodSource
from gpushare_plugin.errors import ApiRefused, ApiUnavailable, ConfigError
from gpushare_plugin.sim.apiserver import Access, ApiServerSettings, Rule, SimApiServer, User
from tests.adapters import kube_certificates as certificates
from tests.adapters.kube_servers import client_of, following

ACCOUNT = "system:serviceaccount:kube-system:gpushare"
FIRST = "first"
RULES = {ACCOUNT: (Rule(verbs=("get", "list", "watch"), resources=("pods", "nodes")),)}


@dataclass
class ServiceAccount:
    """The folder that the kubelet mounts into a pod, with its links."""

    folder: Path
    generation: int = 0

    def turn(self, token: str, *, authority: str = certificates.AUTHORITY) -> None:
        """Replace all files at once, as the kubelet does."""
        self.generation += 1
        files = self.folder / f"..{self.generation}"
        files.mkdir(parents=True)
        (files / "token").write_text(token)
        (files / "ca.crt").write_text(authority)
        link = self.folder / "..data_tmp"
        link.symlink_to(files.name)
        link.rename(self.folder / "..data")
        for name in ("token", "ca.crt"):
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")

    def credentials(self, server: SimApiServer) -> InCluster:
        return InCluster(environment(server.address), self.folder)


def environment(address: str) -> dict[str, str]:
    parts = urlsplit(address)
    return {
        "KUBERNETES_SERVICE_HOST": parts.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(parts.port),
    }


def tokens(*accepted: str) -> Access:
    return Access(tokens={token: User(name=ACCOUNT) for token in accepted}, rules=RULES)


@pytest.fixture
def account(tmp_path: Path) -> ServiceAccount:
    account = ServiceAccount(tmp_path / "serviceaccount")
    account.turn("first\n")
    return account


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[SimApiServer]:
    """An API server that speaks TLS and takes the token `first`."""
    certificate = folder / "server.pem"
    certificate.write_text(certificates.SERVER + certificates.SERVER_KEY)
    async with SimApiServer(ApiServerSettings(tls_certificate=certificate)) as server:
        await server.create("nodes", {"metadata": {"name": "n"}})
        await server.set_access(tokens(FIRST))
        yield server


async def test_the_service_account_of_the_pod_opens_the_door(
    account: ServiceAccount, tmp_path: Path
) -> None:
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        await client.get_node("n")

        [call] = server.calls()
        assert call.user == ACCOUNT


async def test_b131_a_token_that_turned_is_used_from_the_next_request_on(
    account: ServiceAccount, tmp_path: Path
) -> None:
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        await client.get_node("n")

        account.turn("second")
        await server.set_access(tokens("second"))
        await client.get_node("n")

        assert [call.status for call in server.calls()] == [200, 200]


async def test_b131_a_401_reads_the_token_anew_and_asks_once_more(
    account: ServiceAccount, tmp_path: Path
) -> None:
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        await client.get_node("n")

        # Not to be told apart by its status, as after a clock that went back.
        token = account.folder / "token"
        before = token.stat()
        token.write_text("other\n")
        os.utime(token, ns=(before.st_atime_ns, before.st_mtime_ns))
        await server.set_access(tokens("other"))
        await client.get_node("n")

        assert [call.status for call in server.calls()] == [200, 401, 200]


async def test_b131_a_token_that_stays_wrong_is_told_after_two_tries(
    account: ServiceAccount, tmp_path: Path
) -> None:
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        await server.set_access(tokens("another"))

        with pytest.raises(ApiRefused, match=r"get nodes n: .*does not know us \(401 .*token"):
            await client.get_node("n")

        assert [call.status for call in server.calls()] == [401, 401]


async def test_b131_watches_go_on_after_the_token_has_turned(
    account: ServiceAccount, tmp_path: Path
) -> None:
    async with (
        secured(tmp_path) as server,
        client_of(account.credentials(server)) as client,
        following(PodSource(client)) as seen,
    ):
        await server.watched("pods")
        account.turn("second")
        await server.set_access(tokens("second"))
        await server.cut_watches()
        await server.create("pods", {"metadata": {"name": "a", "namespace": "team"}})
        await seen.until(lambda: seen.names == ["team/a"])


async def test_an_authority_that_turned_is_trusted_from_the_next_request_on(
    account: ServiceAccount, tmp_path: Path
) -> None:
    account.turn("first", authority=certificates.ANOTHER_AUTHORITY)
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        with pytest.raises(ApiUnavailable, match="not trusted"):
            await client.get_node("n")

        account.turn("first")
        await client.get_node("n")

        account.turn("first", authority=certificates.ANOTHER_AUTHORITY)
        with pytest.raises(ApiUnavailable, match="not trusted"):
            await client.get_node("n")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("token", None, "must be mounted"),
        ("token", "", "empty, expected the service account's token"),
        ("token", "\n", "empty"),
        ("token", "\u00e9", "must be mounted"),
        ("ca.crt", None, "must be mounted"),
        ("ca.crt", "no certificate", "expected the certificate of the cluster's authority"),
    ],
    ids=["no-token", "empty", "blank", "not-ascii", "no-authority", "no-certificate"],
)
async def test_files_that_are_not_as_they_should_be_are_named(
    account: ServiceAccount, tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        if text is None:
            (account.folder / name).unlink()
        else:
            (account.folder / name).write_text(text, encoding="utf-8")

        with pytest.raises(ApiRefused, match=told) as caught:
            await client.get_node("n")

    assert str(account.folder / name) in str(caught.value)


async def test_a_token_that_is_no_header_is_an_error_of_ours(
    account: ServiceAccount, tmp_path: Path
) -> None:
    async with secured(tmp_path) as server, client_of(account.credentials(server)) as client:
        account.turn("two\nlines")

        with pytest.raises(ApiUnavailable, match="get nodes n: "):
            await client.get_node("n")


def test_outside_of_a_pod_it_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="name a kubeconfig file"):
        InCluster({})


def test_an_address_of_ipv6_is_put_into_brackets(account: ServiceAccount) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    assert InCluster(environ, account.folder).endpoint.server == "https://[fd00::1]:443"


# ---------------------------------------------------------------------------------- TLS


async def test_a_server_is_verified_by_the_authority_that_was_given(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        given = Fixed(server.address, token=FIRST, ca_pem=certificates.AUTHORITY)
        async with client_of(given) as client:
            await client.get_node("n")


@pytest.mark.parametrize("authority", [certificates.ANOTHER_AUTHORITY, None], ids=["wrong", "none"])
async def test_a_server_that_nobody_vouches_for_is_not_told_our_token(
    tmp_path: Path, authority: str | None
) -> None:
    async with secured(tmp_path) as server:
        async with client_of(Fixed(server.address, token=FIRST, ca_pem=authority)) as client:
            with pytest.raises(ApiUnavailable, match=r"not trusted: .*certificate verify failed"):
                await client.get_node("n")

        assert server.calls() == ()


async def test_a_certificate_of_another_name_is_not_trusted(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        address = server.address.replace("127.0.0.1", "localhost")
        given = Fixed(address, token=FIRST, ca_pem=certificates.AUTHORITY)
        async with client_of(given) as client:
            with pytest.raises(ApiUnavailable, match=r"is not trusted: .*localhost"):
                await client.get_node("n")


async def test_a_server_without_tls_is_told_so() -> None:
    async with SimApiServer() as server:
        address = server.address.replace("http:", "https:")
        async with client_of(Fixed(address, ca_pem=certificates.AUTHORITY)) as client:
            with pytest.raises(ApiUnavailable, match=r"no TLS with .* is it an https server"):
                await client.get_node("n")


def test_every_context_verifies() -> None:
    context = Fixed("https://127.0.0.1", ca_pem=certificates.AUTHORITY).tls()

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    # Python 3.13 is stricter than what Kubernetes' own authorities are made for.
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_a_daemon_in_a_cluster_imports_no_kubernetes() -> None:
    # In a process of its own: this one has imported it for other tests.
    import subprocess  # noqa: PLC0415

    program = (
        "import sys, gpushare_plugin.adapters.kube;"
        "assert not {'aiohttp', 'msgspec'} & set(sys.modules);"
        "import gpushare_plugin.adapters.kube.informer, gpushare_plugin.adapters.kube.recorder,"
        " gpushare_plugin.adapters.kube.kubeconfig;"
        "assert 'kubernetes' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=10)
