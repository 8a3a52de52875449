"""HTTP to the API server: one pool of connections, kept alive.

Rule 1: the only module that imports aiohttp. Nothing of it leaves: each of its
errors, and each answer that is no success, becomes an ApiError here.
Rule 2: a 401 is asked again once, with the credentials read anew: a token that was
replaced a moment ago is no reason to fail.
Rule 3: no answer is waited for without end; a body that stops coming is an error.
Rule 4: no retry otherwise, but of a read or an update whose kept connection the server
had just closed (aiohttp does that): how often and how soon is the caller's to know.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Self

import aiohttp

import gpushare_plugin
from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.credentials import Credentials, verifying
from gpushare_plugin.adapters.kube.failures import Answer, Call, failure
from gpushare_plugin.errors import ApiError, ApiUnavailable

USER_AGENT = f"gpushare/{gpushare_plugin.__version__}"
CONNECT_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 60.0
"""Less than the API server's own 90 s, so that it is we who close an idle connection."""
READ_BUFFER_BYTES = 256 * 1024

_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
}
_CONTENT_TYPES = {
    "create": "application/json",
    "update": "application/json",
    "patch": "application/merge-patch+json",
}


class Transport:
    """Sends calls with credentials; use it as an asynchronous context manager."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._endpoint = credentials.endpoint
        # aiohttp's own context trusts nobody in the daemon: see `app.aiohttp_import`.
        through_tls = (self._endpoint.proxy or "").startswith("https:")
        self._proxy_tls: ssl.SSLContext | bool = verifying() if through_tls else True

    async def __aenter__(self) -> Self:
        # aiohttp's own trust in the environment would read .netrc as well: see `proxies`.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
            # Packed answers cost the API server more than a cluster's network saves.
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            # What a call may take is told by the call; a watch may take for ever.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            read_bufsize=READ_BUFFER_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def refused(self, call: Call, answer: Answer) -> ApiError:
        """Return the error that a refusal stands for."""
        return failure(call, answer, source=self._endpoint.source)

    async def answer(self, call: Call) -> bytes:
        """Return the body of the answer; raises ApiError."""
        with self._told(call, call.timeout_seconds):
            async with (
                asyncio.timeout(call.timeout_seconds),
                await self._success(call) as response,
            ):
                return await response.read()

    async def chunks(self, call: Call, *, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes, until the server ends it; close it (`aclosing`).

        The first chunk is empty, and comes once the server has said yes.

        Raises:
            ApiError: it is refused, it breaks off, or nothing came for `silence_seconds`.
        """
        with self._told(call, call.timeout_seconds):
            async with asyncio.timeout(call.timeout_seconds):
                response = await self._success(call)
        try:
            yield b""
            while True:
                with self._told(call, silence_seconds):
                    async with asyncio.timeout(silence_seconds):
                        chunk = await response.content.readany()
                if not chunk:
                    return
                yield chunk
        finally:
            # Never given back to the pool: it may be half-open.
            response.close()

    async def _success(self, call: Call) -> aiohttp.ClientResponse:
        """Return the answer once its head is there; for the caller to close."""
        response = await self._sent(call)
        if response.status == HTTPStatus.UNAUTHORIZED:
            response.close()
            response = await self._sent(call, anew=True)
        if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            return response
        answer = wire.refusal(
            response.status,
            await response.read(),
            retry_after=response.headers.get("Retry-After", ""),
        )
        raise self.refused(call, answer)

    async def _sent(self, call: Call, *, anew: bool = False) -> aiohttp.ClientResponse:
        headers = {}
        if authorization := await self._credentials.authorization(anew=anew):
            headers["Authorization"] = authorization
        if content_type := _CONTENT_TYPES.get(call.verb):
            headers["Content-Type"] = content_type
        return await self._session.request(
            _METHODS[call.verb],
            f"{self._endpoint.server}{call.path}",
            params=call.query,
            data=call.body or None,
            headers=headers,
            # A redirect would carry the token to somebody else.
            allow_redirects=False,
            proxy=self._endpoint.proxy,
            # Another context is another pool: a new authority is asked for at once.
            ssl=self._credentials.tls() or self._proxy_tls,
            server_hostname=self._endpoint.server_name,
        )

    @contextmanager
    def _told(self, call: Call, seconds: float) -> Iterator[None]:
        try:
            yield
        # A header or URL that cannot be sent is a ValueError.
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = _reason(error, self._endpoint.server, seconds)
            raise ApiUnavailable(f"{call}: {reason}") from error


def _reason(error: Exception, server: str, seconds: float) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return (
                f"the certificate of {server} is not trusted: {error.certificate_error};"
                " expected one of the authority that the credentials name"
            )
        case aiohttp.ClientConnectorDNSError():
            return f"{server} has no address ({error.strerror}); is the cluster's DNS up?"
        case aiohttp.ClientSSLError():
            return f"no TLS with {server}: {error}; is it an https server?"
        case aiohttp.InvalidURL():
            return f"{server} is no URL of a server, such as https://10.96.0.1:443"
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            return f"the proxy does not lead to {server}: {error}; NO_PROXY exempts it"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {server} within {CONNECT_SECONDS:g} s; is it reachable?"
        case TimeoutError():
            return (
                f"nothing came from {server} for {seconds:g} s; the connection is taken for"
                " half-open: try again over another one"
            )
        case aiohttp.ClientConnectorError():
            return f"no connection to {server}: {error.strerror}; does the API server run there?"
        case _:
            found = str(error) or type(error).__name__
            return f"the connection to {server} broke: {found}; try again"
