"""The port: open, closed, and open again on the same number.

Rule 1: while the server is away its port is kept, so nobody else gets it, and
who connects is refused, as where nothing listens.
Rule 2: closing breaks every connection at once and waits for the handlers' ends.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from gpushare_plugin.sim.apiserver.settings import ApiServerSettings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_HOST = "127.0.0.1"
_END_SECONDS = 5.0
_BACKLOG = 1024


class Listener:
    """One port on the loopback interface."""

    def __init__(self, handler: Handler, settings: ApiServerSettings) -> None:
        self._handler = handler
        self._settings = settings
        self._tls = _tls(settings)
        self._keeper: socket.socket | None = None
        self._listening: asyncio.Server | None = None
        self._web: web.Server | None = None

    @property
    def is_open(self) -> bool:
        """Whether anyone can connect."""
        return self._listening is not None

    @property
    def address(self) -> str:
        """The URL that clients begin with; the port is known once it was open."""
        port = self._settings.port if self._keeper is None else self._keeper.getsockname()[1]
        return f"{'http' if self._tls is None else 'https'}://{_HOST}:{port}"

    async def open(self) -> None:
        """Listen."""
        if self._listening is not None:
            return
        if self._keeper is None:
            self._keeper = _bound(self._settings.port)
        listening = _bound(self._keeper.getsockname()[1])
        self._web = web.Server(self._handler, handler_cancellation=True, access_log=None)
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            self._web, sock=listening, ssl=self._tls, backlog=_BACKLOG
        )

    async def close(self) -> None:
        """Stop listening and break every connection."""
        if self._listening is None or self._web is None:
            return
        listening, self._listening = self._listening, None
        listening.close()
        for connection in self._web.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._web.shutdown(_END_SECONDS)
        await listening.wait_closed()

    def give_up(self) -> None:
        """Let the port go."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None


def _bound(port: int) -> socket.socket:
    """Return a socket that has the port, together with the others of this server."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((_HOST, port))
    except OSError:
        bound.close()
        raise
    return bound


def _tls(settings: ApiServerSettings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    return context
