"""A scheduler's HTTP, reduced to what takes time: one kept connection, requests made before.

Rule: it blocks, so that no event loop of this process is in the figures; whoever needs
several at once has a thread for each.
"""

import socket
import ssl
import time
from typing import Self
from urllib.parse import urlsplit

from bench.processes import BenchError

CALL_SECONDS = 30.0
READ_BYTES = 1 << 20
HEAD_END = b"\r\n\r\n"


def post_request(path: str, body: bytes, *, token: str = "") -> bytes:
    """Return the bytes of a POST of JSON."""
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n{bearer}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get_request(path: str) -> bytes:
    """Return the bytes of a GET."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


class HttpClient:
    """One connection to one server."""

    def __init__(self, address: str, *, ca_pem: str = "") -> None:
        """`address` is a URL without a path; with `ca_pem` it is that of a TLS server."""
        url = urlsplit(address)
        host, port = str(url.hostname), url.port or 0
        connection = socket.create_connection((host, port), timeout=CALL_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if ca_pem:
            context = ssl.create_default_context(cadata=ca_pem)
            connection = context.wrap_socket(connection, server_hostname=host)
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def answer(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer.

        Raises:
            BenchError: the connection ended, or the answer has no length.
        """
        self._connection.sendall(request)
        head, _, start = self._until_head_end().partition(HEAD_END)
        chunks, left = [start], _body_bytes(head) - len(start)
        while left > 0:
            chunks.append(self._some())
            left -= len(chunks[-1])
        return int(head.split(b" ", 2)[1]), b"".join(chunks)

    def seconds(self, request: bytes) -> float:
        """Return how long the answer took; raises BenchError also if it is not a 2xx."""
        began = time.perf_counter()
        status, body = self.answer(request)
        seconds = time.perf_counter() - began
        if status // 100 != 2:
            raise BenchError(f"an answer of status {status}: {body[:400].decode(errors='replace')}")
        return seconds

    def _until_head_end(self) -> bytes:
        received = b""
        while HEAD_END not in received:
            received += self._some()
        return received

    def _some(self) -> bytes:
        received = self._connection.recv(READ_BYTES)
        if not received:
            raise BenchError("the server closed the connection within an answer")
        return received


def _body_bytes(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise BenchError(f"an answer without Content-Length: {head.decode(errors='replace')}")
