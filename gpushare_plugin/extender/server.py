"""HTTP: paths to calls and pages, bodies within a bound. The only importer of aiohttp here.

Rule 1: a request is answered, whatever it is; what is too large is refused before it is
read, and what is sent too slowly is not waited for.
Rule 2: connections are kept for longer than a client keeps an idle one (Go: 90 s), so that
it is never we who close one that a call is just being written to.
Rule 3: paths are a table, so aiohttp's application and router are left out; how much of a
body is read is decided here.
Rule 4: a page that fails is told in the log, and the process lives.
"""

import asyncio
import traceback
from http import HTTPStatus

from aiohttp import web

from gpushare_plugin.extender.calls import TEXT_TYPE, Calls, Reply, Verb
from gpushare_plugin.extender.listening import Listener
from gpushare_plugin.extender.pages import Pages
from gpushare_plugin.logs import event_logger

log = event_logger(__name__)

PREFIX = "/gpushare-scheduler/"
KEEP_ALIVE_SECONDS = 3600.0
BODY_SECONDS = 30.0
"""How long a body may take to come."""
SHUTDOWN_SECONDS = 1.5
"""How long our end waits for calls that are being answered."""
READ_BUFFER_BYTES = 1 << 20

_VERBS = {f"{PREFIX}{verb.value}": verb for verb in Verb}


class _Refused(Exception):
    """A request that is not read to its end."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


class HttpServer:
    """Serves calls and pages, or pages alone."""

    def __init__(
        self,
        pages: Pages,
        calls: Calls | None = None,
        *,
        body_limit_bytes: int = 0,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._pages = pages
        self._calls = calls
        self._body_limit_bytes = body_limit_bytes
        self._body_seconds = body_seconds

    async def run(self, listener: Listener) -> None:
        """Serve until cancelled; then calls that are being answered have a moment to end.

        Raises:
            ConfigError: the certificate files do not work.
            ListenError: the address cannot be had.
        """
        server = web.Server(
            self._answer,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            read_bufsize=READ_BUFFER_BYTES,
            auto_decompress=False,  # a small body would be a large one then
        )
        try:
            await listener.run(server)
        finally:
            await server.shutdown(SHUTDOWN_SECONDS)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        try:
            reply = await self._reply(request)
        except _Refused as refused:
            reply = refused.reply
        except Exception as error:  # noqa: BLE001  # rule 4
            log.error(
                "page_failed",
                path=request.path,
                error=repr(error),
                traceback=traceback.format_exc(),
            )
            reply = _plain(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log")
        response = web.Response(
            body=reply.body, status=reply.status, headers={"Content-Type": reply.content_type}
        )
        if reply.closes:
            response.force_close()
        return response

    async def _reply(self, request: web.BaseRequest) -> Reply:
        verb = _VERBS.get(request.path) if self._calls is not None else None
        if self._calls is not None and verb is not None:
            if request.method != "POST":
                return _plain(HTTPStatus.METHOD_NOT_ALLOWED, "expected POST")
            return await self._calls.answer(verb, await self._body(request))
        page = self._pages.page(request.path) if request.method in ("GET", "HEAD") else None
        return page or _plain(HTTPStatus.NOT_FOUND, f"{request.method} {request.path}: not found")

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Return the body, if it is within the bound and comes in time."""
        size = request.content_length or 0
        self._check(size)
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._body_seconds):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    self._check(size)
                    chunks.append(chunk)
        except TimeoutError:
            raise _refused(HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time") from None
        return b"".join(chunks)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._body_limit_bytes:
            raise _refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has {size_bytes} bytes or more, the limit is"
                f" {self._body_limit_bytes >> 20} MiB; set nodeCacheCapable, or raise"
                " --body-limit-mib",
            )


def _plain(status: HTTPStatus, text: str, *, closes: bool = False) -> Reply:
    return Reply(
        body=f"{text}\n".encode(), status=status.value, content_type=TEXT_TYPE, closes=closes
    )


def _refused(status: HTTPStatus, text: str) -> _Refused:
    return _Refused(_plain(status, text, closes=True))
