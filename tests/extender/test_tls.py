"""TLS over real sockets: files that change or break, clients that must show who they are."""

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest

from gpushare_plugin.errors import ConfigError, ListenError
from gpushare_plugin.extender.listening import Listener
from gpushare_plugin.extender.tls import Certificates
from gpushare_plugin.metrics import ExtenderMetrics
from tests.extender.certificates import Authority, Pair, served
from tests.extender.http_sites import Site, ask, make_site, serving
from tests.node.event_log import EventLog


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


async def shown_by(site: Site, tls: ssl.SSLContext) -> bytes:
    """The certificate that a new connection is shown, as DER."""
    host, port = site.url.removeprefix("https://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(found, bytes)
    return found


async def is_heard(site: Site, tls: ssl.SSLContext) -> bool:
    """Whether a client is answered; refused ones learn it with the first bytes they read."""
    try:
        return (await ask(f"{site.url}/healthz", tls=tls)).status == 200
    except (aiohttp.ClientError, ConnectionError, ssl.SSLError):
        return False


def counted(site: Site) -> float:
    value = site.metrics.registry.get_sample_value("gpushare_extender_certificate_failures_total")
    assert value is not None
    return value


async def test_new_connections_see_the_new_certificate_and_open_ones_go_on(
    log: EventLog, tmp_path: Path, authority: Authority
) -> None:
    first, second = authority.signs("first"), authority.signs("second")
    files = served(tmp_path / "tls", first)
    trusted = authority.trusted()
    async with (
        serving(make_site(), log, certificates=files.files) as site,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted, limit=1)) as client,
    ):
        async with client.get(f"{site.url}/healthz") as before:
            assert before.status == 200
        assert await shown_by(site, trusted) == first.der

        files.install(second)
        await log.said("certificates_changed")

        assert await shown_by(site, trusted) == second.der
        async with client.get(f"{site.url}/healthz") as after:
            assert after.status == 200


async def test_a_secrets_volume_whose_link_is_swapped_is_read_again(
    log: EventLog, tmp_path: Path, authority: Authority
) -> None:
    first, second = authority.signs("first"), authority.signs("second")
    served(tmp_path / "1", first)
    served(tmp_path / "2", second)
    (tmp_path / "data").symlink_to(tmp_path / "1")
    files = Certificates(
        certificate=tmp_path / "data" / "tls.crt", key=tmp_path / "data" / "tls.key"
    )
    async with serving(make_site(), log, certificates=files) as site:
        (tmp_path / "new").symlink_to(tmp_path / "2")
        (tmp_path / "new").rename(tmp_path / "data")
        await log.said("certificates_changed")

        assert await shown_by(site, authority.trusted()) == second.der


@pytest.mark.parametrize("broken", ["no pem", "another's key", "gone"])
async def test_a_new_pair_that_does_not_work_leaves_the_last_good_one_in_use(
    log: EventLog, tmp_path: Path, authority: Authority, broken: str
) -> None:
    first, second = authority.signs("first"), authority.signs("second")
    files = served(tmp_path / "tls", first)
    trusted = authority.trusted()
    async with serving(make_site(), log, certificates=files.files) as site:
        match broken:
            case "no pem":
                files.files.certificate.write_text("-----BEGIN CERTIFICATE-----\nhalf of it")
            case "another's key":
                files.install(Pair(first.certificate, second.key))
            case _:
                files.files.key.unlink()
        line = await log.said("certificates_do_not_work")

        assert str(files.files.certificate) in line["error"]
        assert await shown_by(site, trusted) == first.der
        assert counted(site) >= 1

        files.install(second)
        await log.said("certificates_changed")
        assert await shown_by(site, trusted) == second.der


async def test_a_client_without_a_certificate_of_the_authority_is_not_heard(
    log: EventLog, tmp_path: Path, authority: Authority
) -> None:
    stranger = Authority(tmp_path, "stranger").signs("stranger-client")
    files = served(tmp_path / "tls", authority.signs("server"), authority)
    async with serving(make_site(), log, certificates=files.files) as site:
        assert await is_heard(site, authority.trusted(authority.signs("scheduler")))
        assert not await is_heard(site, authority.trusted())
        assert not await is_heard(site, authority.trusted(stranger))


async def test_new_connections_are_held_against_the_new_authority_alone(
    log: EventLog, tmp_path: Path, authority: Authority
) -> None:
    server, old = authority.signs("server"), authority.signs("old-scheduler")
    other = Authority(tmp_path, "other-authority")
    new = other.signs("new-scheduler")
    files = served(tmp_path / "tls", server, authority)
    async with serving(make_site(), log, certificates=files.files) as site:
        assert await is_heard(site, authority.trusted(old))
        assert not await is_heard(site, authority.trusted(new))

        files.install(server, other)
        await log.said("certificates_changed")

        assert await is_heard(site, authority.trusted(new))
        assert not await is_heard(site, authority.trusted(old))


async def test_plain_http_on_a_tls_port_is_not_heard_and_harms_nobody(
    log: EventLog, tmp_path: Path, authority: Authority
) -> None:
    files = served(tmp_path / "tls", authority.signs("server"))
    async with serving(make_site(), log, certificates=files.files) as site:
        with pytest.raises(aiohttp.ClientError):
            await ask(site.url.replace("https", "http") + "/healthz")

        assert await is_heard(site, authority.trusted())


def test_files_that_do_not_work_at_the_start_are_named(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.signs("server")
    none = tmp_path / "none"
    files = {
        "--tls-certificate": Certificates(certificate=none, key=pair.key),
        f"--tls-key {none}": Certificates(certificate=pair.certificate, key=none),
        f"--tls-client-ca {none}": Certificates(
            certificate=pair.certificate, key=pair.key, client_ca=none
        ),
        f"--tls-client-ca {pair.key}": Certificates(
            certificate=pair.certificate, key=pair.key, client_ca=pair.key
        ),
    }
    for words, each in files.items():
        with pytest.raises(ConfigError, match=words):
            each.context()


async def test_an_address_that_is_taken_is_told(log: EventLog) -> None:
    async with serving(make_site(), log) as site:
        port = int(site.url.rpartition(":")[2])
        other = Listener(("127.0.0.1", port), None, ExtenderMetrics().certificate_failures)

        with pytest.raises(ListenError, match=rf"port {port}: .*in use; expected an address"):
            await other.run(asyncio.Protocol)


@pytest.mark.parametrize("host", ["", "::1", "localhost"])
async def test_every_way_to_write_an_address_is_served(log: EventLog, host: str) -> None:
    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.write(b"here")
            transport.close()

    listener = Listener((host, 0), None, ExtenderMetrics().certificate_failures)
    running = asyncio.create_task(listener.run(Greeting))
    said = await log.said("listening")
    reader, writer = await asyncio.open_connection(host or "127.0.0.1", int(said["port"]))

    assert await reader.read() == b"here"
    writer.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
