"""An extender behind real HTTP: the verbs over a ledger that the test fills itself.

Stands in for the API server with a class of three methods; `tests/e2e` has the real one.
"""

import asyncio
import io
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from gpushare_plugin.adapters.kube.reading import pod_reader
from gpushare_plugin.app.extender import request_pod_reader
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiNotFound
from gpushare_plugin.extender.binding import PodBinding
from gpushare_plugin.extender.calls import Calls, Verbs
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtering
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.inspecting import inspect
from gpushare_plugin.extender.listening import Listener
from gpushare_plugin.extender.pages import Pages
from gpushare_plugin.extender.preempting import Preempting
from gpushare_plugin.extender.prioritizing import Prioritizing
from gpushare_plugin.extender.server import HttpServer
from gpushare_plugin.extender.tls import Certificates
from gpushare_plugin.extender.wire import ArgsReader
from gpushare_plugin.metrics import ExtenderMetrics
from gpushare_plugin.ports.cluster import Node, Upserted
from gpushare_plugin.ports.scheduling import Binding
from tests.node.event_log import EventLog

MEMORY = "aliyun.com/gpu-mem"
READER = pod_reader([MEMORY, "aliyun.com/gpu-core.percentage"])
PREFIX = "/gpushare-scheduler"


def pod_json(name: str = "p", units: int = 4) -> dict[str, Any]:
    """A pod as a scheduler sends it."""
    limits = {MEMORY: str(units)} if units else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
        },
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }


def node(name: str, units: int = 46, count: int = 2) -> Node:
    """A node of the original's plugin."""
    resources = {MEMORY: str(units), "aliyun.com/gpu-count": str(count)}
    return Node(name=name, uid=f"uid-{name}", capacity=resources, allocatable=resources, ready=True)


class OneGate:
    """A gate that a test opens and shuts."""

    def __init__(self) -> None:
        self.leads = True
        self.says: str | None = None

    async def refusal(self, *, writing: bool) -> str | None:
        del writing
        return self.says


class Api:
    """Binds whatever it is told to."""

    def __init__(self) -> None:
        self.bound: list[Binding] = []

    async def bind(self, binding: Binding, *, timeout_seconds: float) -> None:
        del timeout_seconds
        self.bound.append(binding)

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        del timeout_seconds
        raise ApiNotFound(f"get pod {namespace}/{name}: not found")


@dataclass
class Site:
    """One extender, and what a test may look at."""

    cluster: Cluster
    api: Api
    gate: OneGate
    metrics: ExtenderMetrics
    calls: Calls
    url: str = ""
    not_ready: list[str] = field(default_factory=list)

    def put(self, *nodes: Node) -> None:
        for each in nodes:
            self.cluster.node_changed(Upserted(each))

    def know(self, pod: Mapping[str, Any]) -> None:
        """Have the watch tell of a pod."""
        self.cluster.pod_changed(Upserted(_read(pod)))


def _read(pod: Mapping[str, Any]) -> Pod:
    return READER.read(json.dumps(pod).encode()).item


def make_site(filtering: type[Filtering] = Filtering) -> Site:
    cluster, api, gate, metrics = Cluster(ALIYUN), Api(), OneGate(), ExtenderMetrics()
    fits = Fits(cluster, ALIYUN, Policy.BINPACK)
    binding = PodBinding(
        cluster,
        fits,
        api,
        ALIYUN,
        clock=time.monotonic,
        now_ns=time.time_ns,
        counted=lambda outcome, _: metrics.binds.labels(outcome.value).inc(),
        fence=lambda _: "",
    )
    verbs = Verbs(
        filtering=filtering(cluster, fits),
        prioritizing=Prioritizing(cluster, fits),
        preempting=Preempting(cluster, fits),
        binding=binding,
    )
    args = ArgsReader(request_pod_reader(READER))
    calls = Calls(verbs, args, gate, metrics, time.monotonic, asked=lambda _pod, _answer: None)
    return Site(cluster=cluster, api=api, gate=gate, metrics=metrics, calls=calls)


@asynccontextmanager
async def serving(
    site: Site,
    log: EventLog,
    *,
    certificates: Certificates | None = None,
    body_limit_bytes: int = 1 << 20,
    body_seconds: float = 5.0,
) -> AsyncIterator[Site]:
    """Serve the site on a free port of loopback until the end of the context."""
    pages = Pages(
        site.metrics,
        not_ready=lambda: tuple(site.not_ready),
        inspect=lambda name: inspect(site.cluster, name),
    )
    server = HttpServer(
        pages, site.calls, body_limit_bytes=body_limit_bytes, body_seconds=body_seconds
    )
    listener = Listener(
        ("127.0.0.1", 0), certificates, site.metrics.certificate_failures, look_seconds=0.05
    )
    running = asyncio.create_task(server.run(listener))
    try:
        said = await log.said("listening")
        site.url = f"{'https' if certificates else 'http'}://127.0.0.1:{said['port']}"
        yield site
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


async def ask(
    url: str, method: str = "GET", *, body: Any = None, tls: ssl.SSLContext | None = None
) -> Answer:
    """One request on a connection of its own; `body` is bytes, or a value for JSON."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    data = None if body is None else io.BytesIO(text)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls or True)) as client,
        client.request(method, url, data=data) as response,
    ):
        return Answer(response.status, await response.text(), dict(response.headers))


async def post(site: Site, verb: str, body: Any) -> Answer:
    """One call of a scheduler."""
    return await ask(f"{site.url}{PREFIX}/{verb}", "POST", body=body)
