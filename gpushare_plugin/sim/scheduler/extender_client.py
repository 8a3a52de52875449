"""Calls one HTTP extender, as kube-scheduler does.

Facts (pkg/scheduler/extender.go): POST to urlPrefix/verb with Content-Type application/json;
any status but 200 is an error and its body is dropped; the timeout covers the whole call; with
HTTPS and no CA nothing is verified; an extender is asked only about pods of which a container
or init container names a managed resource in its requests or limits.
"""

import json
import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import aiohttp

from gpushare_plugin.sim.scheduler.extender_settings import ExtenderSettings
from gpushare_plugin.sim.scheduler.extender_wire import (
    ExtenderError,
    FilterAnswer,
    NamedVictims,
    Victims,
    binding_arguments,
    check_binding,
    decoded,
    filter_answer,
    named_victims,
    node_arguments,
    preemption_arguments,
    priorities,
)
from gpushare_plugin.sim.scheduler.journal import Journal
from gpushare_plugin.sim.scheduler.objects import NodeInfo, PodInfo
from gpushare_plugin.sim.scheduler.states import ExtenderCall
from gpushare_plugin.sim.scheduler.tls import client_context

_T = TypeVar("_T")
_OK = 200
_HEADERS = {"Content-Type": "application/json", "User-Agent": "Go-http-client/1.1"}


class HttpExtender:
    """One extender of the configuration; use it as a context. Every verb raises ExtenderError."""

    def __init__(
        self, settings: ExtenderSettings, journal: Journal, *, body_log_bytes: int
    ) -> None:
        self.settings = settings
        self._journal = journal
        self._body_log_bytes = body_log_bytes
        self._tls = _tls(settings)
        self._client: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(
            headers=_HEADERS,
            connector=aiohttp.TCPConnector(ssl=self._tls or True, limit=0),
            timeout=aiohttp.ClientTimeout(total=self.settings.http_timeout_seconds),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()

    def interested(self, pod: PodInfo) -> bool:
        """Whether it is asked about this pod."""
        managed = self.settings.managed
        containers = [
            *(pod.spec.get("containers") or ()),
            *(pod.spec.get("initContainers") or ()),
        ]
        named = (
            (each.get("resources") or {}).get(part) or {}
            for each in containers
            for part in ("requests", "limits")
        )
        return not managed or any(not managed.isdisjoint(names) for names in named)

    # -------------------------------------------------------------------------- verbs

    async def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> FilterAnswer:
        """Return which nodes pass; all of them where there is no such verb."""
        names = tuple(node.name for node in nodes)
        if not self.settings.filter_verb:
            return FilterAnswer(fitting=names, failed={}, unresolvable={})
        names_only = self.settings.node_cache_capable
        arguments = node_arguments(pod, nodes, names_only=names_only)

        def read(value: Any) -> FilterAnswer:
            url = self.settings.url_prefix
            return filter_answer(value, names, names_only=names_only, url=url)

        return await self._call(self.settings.filter_verb, pod, arguments, read)

    async def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Mapping[str, int]:
        """Return scores of 0 to 10 by node."""
        names_only = self.settings.node_cache_capable
        arguments = node_arguments(pod, nodes, names_only=names_only)
        return await self._call(self.settings.prioritize_verb, pod, arguments, priorities)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Let it bind the pod."""
        arguments = binding_arguments(pod, node_name)
        await self._call(self.settings.bind_verb, pod, arguments, check_binding)

    async def preempt(
        self, pod: PodInfo, victims: Mapping[str, Victims]
    ) -> Mapping[str, NamedVictims]:
        """Return the nodes that are left, with who has to go there."""
        names_only = self.settings.node_cache_capable
        arguments = preemption_arguments(pod, victims, names_only=names_only)
        return await self._call(self.settings.preempt_verb, pod, arguments, named_victims)

    # --------------------------------------------------------------------------- wire

    async def _call(self, verb: str, pod: PodInfo, arguments: Any, read: Callable[[Any], _T]) -> _T:
        url = f"{self.settings.url_prefix.rstrip('/')}/{verb}"
        request = json.dumps(arguments, separators=(",", ":")).encode()
        started = time.perf_counter()
        status, answer, error = 0, b"", ""
        try:
            status, answer = await self._post(url, request)
            _check_status(status, verb, url)
            return read(decoded(answer))
        except ExtenderError as failure:
            error = str(failure)
            raise
        finally:
            call = ExtenderCall(
                number=self._journal.next_number(),
                verb=verb,
                url=url,
                pod=pod.key,
                request=self._cut(request),
                answer=self._cut(answer),
                request_bytes=len(request),
                answer_bytes=len(answer),
                status=status,
                seconds=time.perf_counter() - started,
                error=error,
            )
            self._journal.called(call)

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        if self._client is None:
            raise RuntimeError("the extender is called outside its context")
        name = self.settings.tls.server_name or None
        try:
            async with self._client.post(url, data=body, server_hostname=name) as response:
                return response.status, await response.read()
        except TimeoutError as error:
            text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {text}') from error
        except aiohttp.ClientSSLError as error:
            text = f"tls: failed to verify certificate: {error}"
            raise ExtenderError(f'Post "{url}": {text}') from error
        except aiohttp.ClientConnectorError as error:
            where = f"{error.host}:{error.port}"
            # The event loop puts words of its own in the place of the system's.
            cause = os.strerror(error.os_error.errno or 0).lower()
            text = f'Post "{url}": dial tcp {where}: connect: {cause}'
            raise ExtenderError(text) from error
        except aiohttp.ServerDisconnectedError as error:
            raise ExtenderError(f'Post "{url}": EOF') from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f'Post "{url}": {error}') from error

    def _cut(self, body: bytes) -> str:
        return body[: self._body_log_bytes].decode(errors="replace")


def _check_status(status: int, verb: str, url: str) -> None:
    if status != _OK:
        raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")


def _tls(settings: ExtenderSettings) -> ssl.SSLContext | None:
    if not settings.url_prefix.startswith("https:"):
        return None
    context = client_context(settings.tls, where=f"extender {settings.url_prefix}")
    if settings.enable_https and not settings.tls.has_ca:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
