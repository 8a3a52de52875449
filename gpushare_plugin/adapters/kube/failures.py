"""Every way in which a call fails, told as one of our errors.

Rule: each text names the call (verb, resource, object), what was found, and what to do.
Knows no HTTP library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from gpushare_plugin.errors import (
    ApiConflict,
    ApiError,
    ApiExpired,
    ApiNotFound,
    ApiRefused,
    ApiThrottled,
    ApiUnavailable,
)

LONGEST_DETAIL = 400
_NOT_NOW = frozenset({0, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""Beside all from 500 on; 0 is a watch's ERROR that gives no reason."""


_FROM_THE_FUTURE = "Too large resource version"
"""What a server restored from a backup says to a version of before, for ever: a 410 in effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, in the words of Kubernetes' own authorization."""

    verb: str
    """get, list, watch, create, update or patch."""
    resource: str
    """With its subresource: `pods/status`."""
    api: str = "/api/v1"
    """Where the group and version of the resource are served."""
    namespace: str = ""
    name: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    timeout_seconds: float = 15.0
    """For the whole answer; a watch has it for the first byte alone."""

    @property
    def path(self) -> str:
        """The path of the URL."""
        resource, _, subresource = self.resource.partition("/")
        scope = f"namespaces/{self.namespace}/" if self.namespace else ""
        parts = [f"{self.api}/{scope}{resource}", self.name, subresource]
        return "/".join(part for part in parts if part)

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        selectors = [self.query.get(key, "") for key in ("fieldSelector", "labelSelector")]
        chosen = ", ".join(text for text in selectors if text)
        return " ".join(
            part for part in (self.verb, self.resource, name.rstrip("/"), chosen) if part
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is not what was asked for."""

    code: int
    detail: str
    """The server's own words; empty if it had none."""
    retry_after_seconds: float | None = None


def failure(call: Call, answer: Answer, *, source: str) -> ApiError:
    """Return the error that an answer stands for; `source` is where the credentials are from."""
    code = answer.code
    if code == HTTPStatus.GATEWAY_TIMEOUT and _FROM_THE_FUTURE in answer.detail:
        code = HTTPStatus.GONE
    said = f"{answer.code} {answer.detail or _phrase(answer.code)}"[:LONGEST_DETAIL]
    match code:
        case 401:
            return ApiRefused(
                f"{call}: the API server does not know us ({said}); it was shown {source}:"
                " expired, revoked, or of another cluster"
            )
        case 403:
            return ApiRefused(
                f"{call}: forbidden ({said}); the role must grant {call.verb} on {call.resource}"
            )
        case 404:
            return ApiNotFound(f"{call}: not found ({said})")
        case 409 | 422:
            return ApiConflict(
                f"{call}: the object is not as this change expects it ({said}); read it again"
            )
        case 410:
            return ApiExpired(f"{call}: that version is forgotten ({said}); list again")
        case _ if code in _NOT_NOW or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return _not_now(f"{call}: the API server cannot now ({said})", answer)
        case _:
            return ApiError(f"{call}: the API server does not take such a request ({said})")


def _not_now(text: str, answer: Answer) -> ApiUnavailable:
    if answer.retry_after_seconds is None:
        return ApiUnavailable(f"{text}; try again later")
    return ApiThrottled(
        f"{text}; it asks for {answer.retry_after_seconds:g} s of rest",
        retry_after_seconds=answer.retry_after_seconds,
        begun=answer.code != HTTPStatus.TOO_MANY_REQUESTS,
    )


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "without a word"
