"""A stub extender over real HTTP, and a scheduler between it and a simulated API server."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import web

from gpushare_plugin.sim.apiserver import ApiServerSettings, SimApiServer
from gpushare_plugin.sim.scheduler import SchedulerSettings, SimScheduler

MEMORY = "aliyun.com/gpu-mem"
Json = dict[str, Any]
Answer = Any
"""What is sent as JSON; bytes as they are; a number is a status without JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    verb: str
    path: str
    headers: Mapping[str, str]
    json: Any


def all_fit(asked: Json) -> Answer:
    nodes, names = asked["Nodes"], asked["NodeNames"]
    return {"Nodes": nodes, "NodeNames": names, "FailedNodes": {}, "Error": ""}


def none_fit(reason: str) -> Callable[[Json], Answer]:
    return lambda asked: {
        "NodeNames": [],
        "FailedNodes": dict.fromkeys(asked["NodeNames"], reason),
        "Error": "",
    }


class StubExtender:
    """Answers each verb as it is told; by default all fits and nothing is bound."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[Call] = []
        self.answers: dict[str, Callable[[Json], Answer]] = {
            "filter": all_fit,
            "prioritize": lambda _: [],
            "bind": lambda _: {"Error": ""},
            "preempt": lambda asked: {
                "NodeNameToMetaVictims": asked["NodeNameToMetaVictims"],
            },
        }
        self.gates: dict[str, asyncio.Event] = {}
        """A verb with a gate answers once it is open."""
        self.came = asyncio.Condition()
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**30)
        app.router.add_post("/scheduler/{verb}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.address = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}/scheduler"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        verb, value = request.match_info["verb"], await request.json()
        call = Call(verb=verb, path=request.path, headers=dict(request.headers), json=value)
        async with self.came:
            self.calls.append(call)
            self.came.notify_all()
        if verb in self.gates:
            await self.gates[verb].wait()
        answer = self.answers[verb](value)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, ConnectionError):
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if isinstance(answer, int):
            return web.Response(status=answer, text="a body that nobody reads")
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        return web.Response(body=json.dumps(answer).encode(), content_type="application/json")

    def of(self, verb: str) -> list[Call]:
        return [call for call in self.calls if call.verb == verb]

    async def called(self, verb: str, count: int = 1) -> list[Call]:
        async with asyncio.timeout(5), self.came:
            await self.came.wait_for(lambda: len(self.of(verb)) >= count)
        return self.of(verb)


def configuration(*extenders: Json, **fields: Any) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "extenders": list(extenders),
        **fields,
    }


def extender_of(stub: StubExtender, **fields: Any) -> Json:
    return {
        "urlPrefix": stub.address,
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": MEMORY}],
        "httpTimeout": "2s",
    } | fields


def pod(name: str, *, units: int = 0, cpu: str = "", **spec: Any) -> Json:
    asked = ({MEMORY: str(units)} if units else {}) | ({"cpu": cpu} if cpu else {})
    container = {"name": "main", "image": "app:1", "resources": {"limits": asked}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def node(name: str, *, units: int = 16, cpu: str = "8", **spec: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110", MEMORY: str(units)}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


@dataclass(frozen=True, slots=True)
class World:
    """An API server, an extender that binds through it, and a scheduler over both."""

    server: SimApiServer
    extender: StubExtender
    scheduler: SimScheduler

    async def bind(self, asked: Json) -> Answer:
        """What an extender does that really binds."""
        await self.server.patch(
            "pods",
            asked["PodName"],
            {"spec": {"nodeName": asked["Node"]}},
            namespace=asked["PodNamespace"],
        )
        return {"Error": ""}

    async def bound(self, name: str) -> str:
        """The node where the pod is, once it is anywhere."""
        found = await self.server.until_object(
            "pods", name, lambda value: bool(value["spec"].get("nodeName"))
        )
        return str(found["spec"]["nodeName"])

    def notes(self, name: str, reason: str = "FailedScheduling") -> list[str]:
        """The events' messages about a pod, oldest first."""
        events = [
            event
            for event in self.server.objects("events")
            if event["involvedObject"]["name"] == name and event["reason"] == reason
        ]
        return [event["message"] for event in sorted(events, key=lambda each: each["eventTime"])]


@asynccontextmanager
async def world(
    folder: Path,
    *nodes: Json,
    extender: Json | None = None,
    config: Json | None = None,
    stub: StubExtender | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """Nodes that are there from the start; `extender` changes its configuration."""
    async with (
        SimApiServer(ApiServerSettings(grace_scale=0.01)) as server,
        stub or StubExtender() as peer,
    ):
        for each in nodes:
            await server.create("nodes", each)
        text = configuration(extender_of(peer, **(extender or {})), **(config or {}))
        async with SimScheduler(files(folder, server, text, **settings)) as scheduler:
            made = World(server, peer, scheduler)
            peer.answers["bind"] = made.bind
            await scheduler.leading()
            yield made


def files(folder: Path, server: SimApiServer, text: Json, **settings: Any) -> SchedulerSettings:
    kubeconfig, config = folder / "kubeconfig", folder / "scheduler.yaml"
    kubeconfig.write_text(server.kubeconfig(), encoding="utf-8")
    config.write_text(yaml.safe_dump(text), encoding="utf-8")
    fast = {"backoff_scale": 0.01, "watch_retry_seconds": 0.05}
    return SchedulerSettings(kubeconfig=kubeconfig, config=config, **(fast | settings))
