"""Which proxy leads to the API server: as kubectl would go, ranges in NO_PROXY included."""

import pytest

from gpushare_plugin.adapters.kube.credentials import Endpoint
from gpushare_plugin.adapters.kube.proxies import proxy_for
from gpushare_plugin.errors import ApiUnavailable, ConfigError
from tests.adapters.kube_servers import answer, client_of, scripted

SERVER = "https://10.96.0.1:443"
PROXY = "http://proxy.corp:3128"


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        (SERVER, {}, None),
        (SERVER, {"HTTPS_PROXY": PROXY}, PROXY),
        (SERVER, {"https_proxy": PROXY}, PROXY),
        (SERVER, {"https_proxy": "http://other", "HTTPS_PROXY": PROXY}, PROXY),
        (SERVER, {"HTTPS_PROXY": "proxy.corp:3128"}, PROXY),
        (SERVER, {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None),
        ("http://api.corp", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None),
    ],
)
def test_the_proxy_is_that_of_the_servers_scheme(
    server: str, environ: dict[str, str], proxy: str | None
) -> None:
    assert proxy_for(server, environ) == proxy


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        (SERVER, "*", True),
        (SERVER, "10.96.0.0/12", True),
        (SERVER, "10.96.0.1", True),
        (SERVER, "10.96.0.1:443", True),
        (SERVER, "10.96.0.1:6443", False),
        (SERVER, "10.0.0.0/16, ,10.96.0.0/16", True),
        (SERVER, "10.97.0.0/16", False),
        (SERVER, "fd00::/8", False),
        (SERVER, "", False),
        (SERVER, "corp", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
        ("https://api.corp", "corp", True),
        ("https://api.corp", ".corp", True),
        ("https://api.corp", "*.corp", True),
        ("https://api.corp", "API.corp", True),
        ("https://api.corp", "api.corp:443", True),
        ("https://api.corp", "api.corp:6443", False),
        ("https://api.corp", "pi.corp", False),
        ("https://corp", ".corp", False),
        ("https://api.corp", "10.0.0.0/8", False),
    ],
)
def test_no_proxy_exempts_by_name_domain_address_and_range(
    server: str, no_proxy: str, direct: bool
) -> None:
    proxy = proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})

    assert (proxy is None) is direct


def test_a_proxy_of_another_kind_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigError, match="NO_PROXY") as caught:
        proxy_for(SERVER, {"HTTPS_PROXY": "socks5://me:secret@proxy.corp"})

    assert "secret" not in str(caught.value)


class Behind:
    """Credentials for a server behind a proxy."""

    def __init__(self, proxy: str) -> None:
        self.endpoint = Endpoint(server="http://api.test", source="nothing", proxy=proxy)

    def tls(self) -> None:
        return None

    async def authorization(self, *, anew: bool = False) -> str:
        del anew
        return ""


async def test_calls_go_through_the_proxy() -> None:
    async with scripted(answer(b"{}", status="404 Not Found")) as proxy:
        async with client_of(Behind(proxy.address)) as client:
            with pytest.raises(Exception, match="not found"):
                await client.get_node("n")

        assert proxy.requests[0].startswith("GET http://api.test/api/v1/nodes/n HTTP/1.1")


async def test_a_proxy_that_is_away_is_told_apart_from_the_server() -> None:
    async with scripted() as proxy:
        address = proxy.address
    async with client_of(Behind(address)) as client:
        with pytest.raises(ApiUnavailable, match=r"proxy does not lead to http://api\.test"):
            await client.get_node("n")


async def test_the_environment_is_not_looked_at_behind_our_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    async with scripted(answer(b"{}", status="404 Not Found")) as api:
        async with client_of(api.address) as client:
            with pytest.raises(Exception, match="not found"):
                await client.get_node("n")

        assert len(api.requests) == 1
