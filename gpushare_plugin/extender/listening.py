"""An address that is served, and the certificates that it is served with.

Rule: new files are for new connections. A TLS context cannot forget an authority, so each
change makes a new one, on the same listening socket: who connects meanwhile waits in it.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import closing

from gpushare_plugin.errors import ConfigError, ListenError
from gpushare_plugin.extender.tls import Certificates
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import Count

log = event_logger(__name__)

LOOK_SECONDS = 10.0
"""How often the files are compared. A kubelet brings a changed Secret within two minutes."""
BACKLOG = 128

Connections = Callable[[], asyncio.Protocol]
"""Makes what speaks with one client."""


class Listener:
    """Serves connections on one address, with TLS or without."""

    def __init__(
        self,
        address: tuple[str, int],
        certificates: Certificates | None,
        failures: Count,
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._host, self._port = address
        self._certificates = certificates
        self._failures = failures
        self._look_seconds = look_seconds

    async def run(self, connections: Connections) -> None:
        """Serve until cancelled; connections that are open stay so.

        Raises:
            ConfigError: the certificate files do not work.
            ListenError: the address cannot be had.
        """
        files = self._certificates
        stamp = files.stamp() if files else ()
        context = files.context() if files else None
        with closing(self._bound()) as bound:
            server = await _serve(connections, bound, context)
            host, port = bound.getsockname()[:2]
            log.info("listening", host=host, port=port, tls=context is not None)
            try:
                while True:
                    await asyncio.sleep(self._look_seconds)
                    if files is None or files.stamp() == stamp:
                        continue
                    stamp = files.stamp()
                    context = self._reread(files)
                    if context is not None:
                        server.close()
                        server = await _serve(connections, bound, context)
            finally:
                server.close()

    def _reread(self, files: Certificates) -> ssl.SSLContext | None:
        try:
            context = files.context()
        except ConfigError as error:
            self._failures.inc()
            log.warning("certificates_do_not_work", error=error, doing="the last good ones go on")
            return None
        log.info("certificates_changed", certificate=files.certificate)
        return context

    def _bound(self) -> socket.socket:
        address = (self._host, self._port)
        try:
            if not self._host and socket.has_dualstack_ipv6():
                return socket.create_server(
                    address, family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
                )
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            return socket.create_server(address, family=family, backlog=BACKLOG)
        except OSError as error:
            # A name that is not found has a number below 0, and its own words.
            number = error.errno or 0
            cause = os.strerror(number) if number > 0 else error.strerror
            raise ListenError(
                f"cannot listen on {self._host or 'every address'}, port {self._port}: {cause};"
                " expected an address of this machine and a free port"
            ) from error


async def _serve(
    connections: Connections, bound: socket.socket, context: ssl.SSLContext | None
) -> asyncio.Server:
    # Its own copy of the socket: closing a server closes what it listens on.
    return await asyncio.get_running_loop().create_server(
        connections, sock=bound.dup(), ssl=context, backlog=BACKLOG
    )
