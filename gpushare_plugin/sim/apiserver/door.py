"""HTTP at one end, the API's parts at the other: every request passes here.

Rule 1: the order is the real server's: what the call is about, who calls, whether
it may, then the call itself. Faults strike before all but the first.
Rule 2: a call is in the journal from the moment it came in, whatever becomes of it.
"""

import asyncio
import gzip
import time
from collections.abc import Mapping
from contextlib import suppress

from aiohttp import web

from gpushare_plugin.sim.apiserver.calls import Answer, Call
from gpushare_plugin.sim.apiserver.faults import FaultKind
from gpushare_plugin.sim.apiserver.interior import Interior
from gpushare_plugin.sim.apiserver.refusals import ApiRefusal
from gpushare_plugin.sim.apiserver.states import CallRecord
from gpushare_plugin.sim.apiserver.stored import encoded
from gpushare_plugin.sim.apiserver.targets import Target, target_of

BODY_LIMIT_BYTES = 3 * 1024 * 1024
_READABLE = ("application/json", "application/*", "*/*")
_OPEN_PATHS: Mapping[str, bytes] = {
    "/healthz": b"ok",
    "/livez": b"ok",
    "/readyz": b"ok",
    "/version": encoded(
        {
            "major": "1",
            "minor": "36",
            "gitVersion": "v1.36.2",
            "gitTreeState": "clean",
            "platform": "linux/amd64",
        }
    ),
}
"""Paths that need no rule."""


class Door:
    """Handles requests."""

    def __init__(self, interior: Interior) -> None:
        self._interior = interior

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        journal = self._interior.journal
        number, started = journal.next_number(), time.perf_counter()
        body = await request.content.read()
        journal.write(self._record(number, request, body))
        status = 0
        try:
            response = await self._answered(request, number, body)
            status = response.status
            return response
        finally:
            seconds = time.perf_counter() - started
            journal.note(number, status=status, seconds=seconds, ended=True)

    def _record(self, number: int, request: web.BaseRequest, body: bytes) -> CallRecord:
        kept = body[: self._interior.settings.body_log_bytes]
        return CallRecord(
            number=number,
            method=request.method,
            path=request.path,
            query=dict(request.query),
            content_type=request.headers.get("Content-Type", ""),
            body_bytes=len(body),
            body=kept.decode(errors="replace"),
            user_agent=request.headers.get("User-Agent", ""),
            unix_seconds=time.time(),
        )

    async def _answered(
        self, request: web.BaseRequest, number: int, body: bytes
    ) -> web.StreamResponse:
        try:
            if request.method == "GET" and request.path in _OPEN_PATHS:
                return self._response(request, Answer(body=_OPEN_PATHS[request.path]))
            _check_size(body)
            return await self._called(request, number, body)
        except ApiRefusal as refusal:
            answer = Answer(body=encoded(refusal.status()), status=refusal.code)
            response = self._response(request, answer)
            if refusal.retry_after_seconds:
                response.headers["Retry-After"] = str(refusal.retry_after_seconds)
            return response

    async def _called(
        self, request: web.BaseRequest, number: int, body: bytes
    ) -> web.StreamResponse:
        target = target_of(request.method, request.path, request.query)
        self._interior.journal.note(
            number,
            verb=target.verb,
            resource=target.resource,
            namespace=target.namespace,
            name=target.name,
        )
        await self._suffer(target)
        user = self._interior.gate.user(request.headers.get("Authorization", ""))
        self._interior.journal.note(number, user=user.name)
        self._interior.gate.admit(user, target)
        _check_accept(request.headers.get("Accept", ""))
        call = Call(
            target=target,
            user=user,
            query=request.query,
            content_type=request.content_type if "Content-Type" in request.headers else "",
            body=body,
        )
        if target.verb == "watch":
            return await self._watch(request, number, call)
        if late := self._interior.faults.take(target, FaultKind.APPLY_LATE):
            answer = await self._interior.late_calls.answer(call, seconds=late.seconds)
        else:
            answer = self._interior.calls.answer(call)
        if self._interior.faults.take(target, FaultKind.LOSE_ANSWER):
            _abort(request)
            # Ends at once: a handler does not outlive its connection.
            await asyncio.Event().wait()
        return self._response(request, answer)

    async def _suffer(self, target: Target) -> None:
        """Let the faults in force strike."""
        faults = self._interior.faults
        if slow := faults.take(target, FaultKind.SLOW):
            await asyncio.sleep(slow.seconds)
        if faults.take(target, FaultKind.HANG):
            # Ends with the connection: from the client's side, or at the server's end.
            await asyncio.Event().wait()
        if fault := faults.take(target, FaultKind.STATUS):
            details = {"retryAfterSeconds": fault.retry_after_seconds}
            raise ApiRefusal(
                fault.status, fault.message, details=details if fault.retry_after_seconds else None
            )

    async def _watch(self, request: web.BaseRequest, number: int, call: Call) -> web.StreamResponse:
        watches = self._interior.watches
        watch = watches.begin(call.target, call.query, number=number, user=call.user.name)
        watch.silent = self._interior.faults.take(call.target, FaultKind.SILENT_WATCH) is not None
        watch.cut = lambda: _abort(request)
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = "application/json"
        # A client that dies is no error of the server's.
        with suppress(ConnectionResetError):
            await response.prepare(request)
            self._interior.journal.note(number, status=response.status)
            await watches.serve(watch, response)
            await response.write_eof()
        return response

    def _response(self, request: web.BaseRequest, answer: Answer) -> web.Response:
        headers = {"Cache-Control": "no-cache, private"}
        body, limit = answer.body, self._interior.settings.gzip_from_bytes
        if limit and len(body) >= limit and "gzip" in request.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        return web.Response(
            body=body, status=answer.status, headers=headers, content_type="application/json"
        )


def _check_size(body: bytes) -> None:
    if len(body) > BODY_LIMIT_BYTES:
        raise ApiRefusal(413, f"Request entity too large: limit is {BODY_LIMIT_BYTES}")


def _check_accept(accept: str) -> None:
    wanted = [part.partition(";")[0].strip() for part in accept.split(",")]
    if accept and not any(kind in _READABLE for kind in wanted):
        text = "only the following media types are accepted: application/json"
        raise ApiRefusal(406, text)


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
