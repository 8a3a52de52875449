"""The daemon's own pages: /metrics, /healthz, /readyz.

Rule 1: alive and ready are two questions. Alive: this process can still do its work,
else restart it. Ready: it is doing it, the kubelet has our cards.
Rule 2: what is wrong is said in words, a line each.
Rule 3: the daemon works without this: a port that is taken is tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

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

    async def run(self, host: str, port: int) -> None:
        """Serve until cancelled."""
        runner = web.AppRunner(
            self._app(), access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            await self._listen(runner, host, port)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner, host: str, port: int) -> None:
        back_off = BackOff()
        said = False
        while True:
            site = web.TCPSite(runner, host or None, port)
            try:
                await site.start()
            except OSError as error:
                if not said:
                    log.warning("status_address_unavailable", port=port, error=error)
                said = True
                await site.stop()
                await asyncio.sleep(back_off.next_seconds())
                continue
            for address in runner.addresses[:1]:
                log.info("status_pages", host=address[0], port=address[1])
            return

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/metrics", self._answer_metrics)
        app.router.add_get("/healthz", self._answer_healthz)
        app.router.add_get("/readyz", self._answer_readyz)
        return app

    async def _answer_metrics(self, _: web.Request) -> web.Response:
        body = self._metrics.exposition()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _answer_healthz(self, _: web.Request) -> web.Response:
        return _page(await self._not_alive())

    async def _answer_readyz(self, _: web.Request) -> web.Response:
        return _page(self._not_ready())


def _page(problems: Problems) -> web.Response:
    text = "".join(f"{problem}\n" for problem in problems) or "ok\n"
    return web.Response(status=503 if problems else 200, text=text)
