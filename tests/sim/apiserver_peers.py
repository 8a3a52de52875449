"""A raw client of the simulated API server, with nothing of a real client's cleverness."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from gpushare_plugin.sim.apiserver import (
    ADMIN,
    Access,
    ApiServerSettings,
    Rule,
    SimApiServer,
    User,
)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
NODE_DAEMON = User(
    name="system:serviceaccount:kube-system:node",
    groups=("system:serviceaccounts",),
    extra={"authentication.kubernetes.io/node-name": ("n",)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def refusal(self) -> tuple[int, str, str]:
        """The three things that a client looks at, and that the body agrees with the status."""
        value = self.json
        assert (value["kind"], value["apiVersion"]) == ("Status", "v1")
        assert value["status"] == "Failure"
        assert value["code"] == self.status
        return self.status, value["reason"], value["message"]

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.json["items"]]


class Stream:
    """One open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        """The next event; None at a clean end."""
        async with asyncio.timeout(5):
            line = await self.response.content.readline()
        assert not line or line.endswith(b"\n")
        return json.loads(line) if line else None

    async def told(self, count: int) -> list[tuple[str, str]]:
        """The next events as type and name."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def is_silent(self) -> bool:
        """Whether nothing comes just now."""
        try:
            async with asyncio.timeout(0.05):
                return not await self.response.content.readany()
        except TimeoutError:
            return True


class Api:
    """Calls one server; a token and a user agent go with every call."""

    def __init__(self, server: SimApiServer, *, token: str = "") -> None:
        self.server = server
        self._headers = {"User-Agent": "raw/1"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._client = aiohttp.ClientSession(headers=self._headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        text = body if isinstance(body, str | None) else json.dumps(body)
        data = None if text is None else io.BytesIO(text.encode())
        more = headers or {}
        if data is not None:
            more = {"Content-Type": kind, **more}
        async with self._client.request(
            method,
            self.server.address + path,
            params=query,
            data=data,
            headers=more,
            timeout=aiohttp.ClientTimeout(total=5),
        ) as response:
            return Reply(
                status=response.status,
                text=await response.text(),
                headers=dict(response.headers),
            )

    async def get(self, path: str, **query: str) -> Reply:
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Any) -> Reply:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: Any) -> Reply:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: Any, *, kind: str = MERGE) -> Reply:
        return await self.call("PATCH", path, body, kind=kind)

    async def delete(self, path: str, body: Any = None, **query: str) -> Reply:
        return await self.call("DELETE", path, body, query=query)

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Stream]:
        async with self._client.get(
            self.server.address + path,
            params={"watch": "1", **query},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        ) as response:
            yield Stream(response)


@asynccontextmanager
async def running(settings: ApiServerSettings | None = None) -> AsyncIterator[Api]:
    async with SimApiServer(settings) as server, Api(server) as api:
        yield api


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"capacity": {"cpu": "8"}}}


def labelled(value: dict[str, Any], **labels: str) -> dict[str, Any]:
    return value | {"metadata": value["metadata"] | {"labels": labels}}


def access(*rules: Rule) -> Access:
    return Access(
        tokens={"secret": NODE_DAEMON, "root": ADMIN}, rules={NODE_DAEMON.name: tuple(rules)}
    )


@asynccontextmanager
async def guarded(*rules: Rule, who: str = "secret") -> AsyncIterator[Api]:
    async with SimApiServer() as server, Api(server, token=who) as api:
        await server.set_access(access(*rules))
        await server.create("nodes", node("n"))
        await server.create("pods", pod("a"))
        yield api
