"""The daemon's own pages: /metrics, /healthz, /readyz.

Rule 1: alive and ready are two questions. Alive: this process can still do its work,
else restart it. Ready: it is doing it, the kubelet has our cards.
Rule 2: what is wrong is said in words, a line each.
Rule 3: the daemon works without this: a port that is taken is tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

# Not aiohttp.web: routes, files, forms and WebSockets are 1 MiB that three pages do not need.
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response
from aiohttp.web_server import Server

from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import CONTENT_TYPE, NodeMetrics
from gpushare_plugin.node.retrying import BackOff

log = event_logger(__name__)

Problems = tuple[str, ...]

SHUTDOWN_SECONDS = 0.5
"""How long our end waits for pages that are being read."""


class StatusPages:
    """Serves the pages."""

    def __init__(
        self,
        metrics: NodeMetrics,
        *,
        not_alive: Callable[[], Awaitable[Problems]],
        not_ready: Callable[[], Problems],
    ) -> None:
        self._metrics = metrics
        self._not_alive = not_alive
        self._not_ready = not_ready
        self._pages: dict[str, Callable[[], Awaitable[Response]]] = {
            "/metrics": self._metrics_page,
            "/healthz": self._healthz_page,
            "/readyz": self._readyz_page,
        }

    async def run(self, host: str, port: int) -> None:
        """Serve until cancelled."""
        pages = Server(self._answer, access_log=None)
        listening = await self._listen(pages, host, port)
        try:
            await asyncio.Event().wait()
        finally:
            listening.close()
            pages.pre_shutdown()
            await pages.shutdown(SHUTDOWN_SECONDS)

    async def _listen(self, pages: Server, host: str, port: int) -> asyncio.AbstractServer:
        loop = asyncio.get_running_loop()
        back_off = BackOff()
        said = False
        while True:
            try:
                listening = await loop.create_server(pages, host or None, port)
            except OSError as error:
                if not said:
                    log.warning("status_address_unavailable", port=port, error=error)
                said = True
                await asyncio.sleep(back_off.next_seconds())
                continue
            for each in listening.sockets[:1]:
                address = each.getsockname()
                log.info("status_pages", host=address[0], port=address[1])
            return listening

    async def _answer(self, request: BaseRequest) -> Response:
        page = self._pages.get(request.path)
        if page is None:
            return Response(status=HTTPStatus.NOT_FOUND, text="no such page\n")
        if request.method not in {"GET", "HEAD"}:
            return Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        return await page()

    async def _metrics_page(self) -> Response:
        body = self._metrics.exposition()
        return Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _healthz_page(self) -> Response:
        return _page(await self._not_alive())

    async def _readyz_page(self) -> Response:
        return _page(self._not_ready())


def _page(problems: Problems) -> Response:
    text = "".join(f"{problem}\n" for problem in problems) or "ok\n"
    return Response(status=HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK, text=text)
