"""What the tests of the API client share: clients, waits that do not wait, odd servers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gpushare_plugin.adapters.kube.client import KubeClient
from gpushare_plugin.adapters.kube.cluster_sources import ClusterSources
from gpushare_plugin.adapters.kube.credentials import Credentials, Fixed
from gpushare_plugin.adapters.kube.informer import Informer, Source, Waits
from gpushare_plugin.adapters.kube.reading import pod_reader
from gpushare_plugin.adapters.kube.scheduling_client import SchedulingClient
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.adapters.kube.watching import WatchTimes
from gpushare_plugin.ports.cluster import Change, Gone, Upserted

T = TypeVar("T")

MEMORY = "aliyun.com/gpu-mem"


@asynccontextmanager
async def client_of(
    server: str | Credentials, *, silence_seconds: float = 30.0
) -> AsyncIterator[KubeClient]:
    """A client of a server, or with credentials."""
    credentials = Fixed(server) if isinstance(server, str) else server
    times = WatchTimes(silence_seconds=silence_seconds)
    async with Transport(credentials) as transport:
        yield KubeClient(transport, pods=pod_reader([MEMORY]), watch_times=times)


@asynccontextmanager
async def scheduling_client_of(
    server: str | Credentials, *, silence_seconds: float = 30.0
) -> AsyncIterator[tuple[SchedulingClient, ClusterSources]]:
    """The extender's client, and the sources of its informers."""
    credentials = Fixed(server) if isinstance(server, str) else server
    times = WatchTimes(silence_seconds=silence_seconds)
    async with Transport(credentials) as transport:
        client = SchedulingClient(transport, pods=pod_reader([MEMORY], asking_only=True))
        yield client, ClusterSources(transport, watch_times=times)


class NoWaits:
    """Waits of no length, counted."""

    def __init__(self) -> None:
        self.waits = 0
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def next_seconds(self) -> float:
        self.waits += 1
        return 0.0


@dataclass(kw_only=True)
class Following(Generic[T]):
    """A running informer and what it told."""

    informer: Informer[T]
    waits: NoWaits
    changes: list[Change[T]]
    changed: asyncio.Event

    @property
    def told(self) -> list[str]:
        """The changes as short texts: `+default/a`, `-default/a`."""
        return [f"{'+' if isinstance(each, Upserted) else '-'}{each.item}" for each in self.changes]

    @property
    def names(self) -> list[str]:
        """What is held."""
        return sorted(str(item) for item in self.informer.items.values())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a change after which it holds."""
        async with asyncio.timeout(5):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def following(
    source: Source[T],
    *,
    clock: Callable[[], float] | None = None,
    waits: Waits | None = None,
) -> AsyncIterator[Following[T]]:
    """Run an informer."""
    changes: list[Change[T]] = []
    changed = asyncio.Event()

    def note(change: Upserted[T] | Gone[T]) -> None:
        changes.append(change)
        changed.set()

    counted = NoWaits()
    clock = clock or asyncio.get_running_loop().time
    informer = Informer(source, note, waits=waits or counted, clock=clock)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(informer.run())
        yield Following(informer=informer, waits=counted, changes=changes, changed=changed)
        run.cancel()


# --------------------------------------------------------------------------- odd servers


def answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole answer."""
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def stream(*lines: bytes) -> bytes:
    """An answer that lasts until the connection ends."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    return head + b"".join(lines)


@dataclass(frozen=True)
class Hanging:
    """An answer, or the beginning of one, after which the connection stays open in silence."""

    sent: bytes = b""


@dataclass
class Scripted:
    """A server that answers each request with the next of its replies, byte by byte as told."""

    replies: list[bytes | Hanging]
    address: str = ""
    requests: list[str] = field(default_factory=list)
    """The heads of the requests that came."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.decode())
            self.asked.set()
            reply = self.replies.pop(0) if self.replies else Hanging()
            writer.write(reply.sent if isinstance(reply, Hanging) else reply)
            await writer.drain()
            if isinstance(reply, Hanging):
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*replies: bytes | Hanging) -> AsyncIterator[Scripted]:
    """Run such a server; once its replies are used up it answers nothing."""
    script = Scripted(replies=list(replies))
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield script
