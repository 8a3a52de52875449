"""The scheduler's own small client of the API server.

Rule 1: one method for each kind of call that a scheduler makes; what comes back is JSON.
Rule 2: every failure is an ApiError; its code is 0 where there was no answer.
"""

import json
from collections.abc import AsyncIterator
from typing import Any, Self

import aiohttp

from gpushare_plugin.sim.scheduler.kubeconfig import Connection
from gpushare_plugin.sim.scheduler.objects import Json, PodInfo

_USER_AGENT = "kube-scheduler/v1.36.0 (simulated)"
_CALL_SECONDS = 30.0
_SILENCE_SECONDS = 150.0
"""A watch is sent a bookmark each minute; one that says nothing for so long is dead."""
_REFUSED_FROM = 400
_LINE_LIMIT_BYTES = 8 * 1024 * 1024
_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_SILENCE_SECONDS)

GONE = 410
NOT_FOUND = 404
CONFLICT = 409


class ApiError(Exception):
    """The API server refused, or did not answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ApiClient:
    """One connection pool to one API server; use it as a context."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"User-Agent": _USER_AGENT, "Accept": "application/json"}
        if self._connection.token:
            headers["Authorization"] = f"Bearer {self._connection.token}"
        tls = self._connection.tls
        self._client = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0, ssl=True if tls is None else tls),
            timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS),
            read_bufsize=_LINE_LIMIT_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()

    # --------------------------------------------------------------------- list and watch

    async def list(self, path: str, *, field_selector: str = "") -> Json:
        """Return a list as it is now."""
        query = {"fieldSelector": field_selector} if field_selector else {}
        return await self._call("GET", path, query=query)

    async def watch(
        self, path: str, *, version: str, seconds: int, field_selector: str = ""
    ) -> AsyncIterator[Json]:
        """Yield events until the watch ends."""
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        if field_selector:
            query["fieldSelector"] = field_selector
        try:
            async with self._session.get(self._url(path), params=query, timeout=_WATCH) as response:
                if response.status >= _REFUSED_FROM:
                    raise _refusal(response.status, await response.read())
                async for line in response.content:
                    yield json.loads(line)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ApiError(0, f"watch of {path}: {error!r}") from error

    # ------------------------------------------------------------------------------- pods

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Bind a pod, where no extender does."""
        binding = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        await self._call("POST", f"{_pod_path(pod)}/binding", binding)

    async def patch_pod_status(self, pod: PodInfo, status: Json) -> None:
        """Merge into a pod's status, conditions by type."""
        kind = "application/strategic-merge-patch+json"
        await self._call("PATCH", f"{_pod_path(pod)}/status", {"status": status}, kind=kind)

    async def delete_pod(self, pod: PodInfo) -> None:
        """Delete a pod with its own grace."""
        await self._call("DELETE", _pod_path(pod), {"kind": "DeleteOptions", "apiVersion": "v1"})

    # ------------------------------------------------------------------------------ others

    async def get(self, path: str) -> Json:
        """Return one object."""
        return await self._call("GET", path)

    async def create(self, path: str, value: Json) -> Json:
        """Create an object."""
        return await self._call("POST", path, value)

    async def update(self, path: str, value: Json) -> Json:
        """Replace an object of the version it names."""
        return await self._call("PUT", path, value)

    async def merge(self, path: str, change: Json) -> Json:
        """Apply a merge patch."""
        return await self._call("PATCH", path, change, kind="application/merge-patch+json")

    # -------------------------------------------------------------------------------- wire

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._client is None:
            raise RuntimeError("the client is used outside its context")
        return self._client

    def _url(self, path: str) -> str:
        return self._connection.server + path

    async def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: dict[str, str] | None = None,
        kind: str = "application/json",
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": kind}
        try:
            async with self._session.request(
                method, self._url(path), params=query, data=data, headers=headers
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise ApiError(0, f"{method} {path}: {error!r}") from error
        if response.status >= _REFUSED_FROM:
            raise _refusal(response.status, answer)
        value: Json = json.loads(answer)
        return value


def _pod_path(pod: PodInfo) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _refusal(code: int, body: bytes) -> ApiError:
    try:
        value: Any = json.loads(body)
        return ApiError(code, str(value["message"]))
    except (ValueError, KeyError, TypeError):
        return ApiError(code, f"the server answered with status {code}")
