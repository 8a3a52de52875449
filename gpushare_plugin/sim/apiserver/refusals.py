"""What the server answers instead of doing as it was asked: metav1.Status objects.

Rule: reasons, codes and the wording of messages are those of the real server,
since clients look at all three.
"""

from typing import Any

from gpushare_plugin.sim.apiserver.kinds import Json, Kind

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results."
)
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiRefusal(Exception):
    """A call is refused; becomes the answer."""

    def __init__(
        self, code: int, message: str, *, reason: str = "", details: Json | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or _REASONS.get(code, "Unknown")
        self.details = details or {}
        self.continue_token = ""

    @property
    def retry_after_seconds(self) -> int:
        """What the Retry-After header says; 0 for none."""
        return int(self.details.get("retryAfterSeconds", 0))

    def status(self) -> Json:
        """Return the answer's body."""
        return _status(
            "Failure",
            metadata={"continue": self.continue_token} if self.continue_token else {},
            message=str(self),
            reason=self.reason,
            details=self.details,
            code=self.code,
        )


def success(*, code: int = 0, details: Json | None = None) -> Json:
    """Return the Status of a call that has no object to answer with."""
    return _status("Success", metadata={}, details=details or {}, code=code)


def _status(outcome: str, *, metadata: Json, **fields: Any) -> Json:
    head = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": outcome}
    return head | {name: value for name, value in fields.items() if value}


def about(kind: Kind, name: str) -> Json:
    """Return the details that say which object it was."""
    fields = {"name": name, "group": kind.group, "kind": kind.resource}
    return {key: value for key, value in fields.items() if value}


# ------------------------------------------------------------------------- by cause


def bad_request(message: str) -> ApiRefusal:
    """Return a 400."""
    return ApiRefusal(400, message)


def forbidden(kind: Kind, name: str, cause: str) -> ApiRefusal:
    """Return a 403."""
    subject = f'{kind.qualified} "{name}"' if name else kind.qualified
    return ApiRefusal(403, f"{subject} is forbidden: {cause}", details=about(kind, name))


def not_found(kind: Kind, name: str) -> ApiRefusal:
    """Return a 404 for one object."""
    return ApiRefusal(404, f'{kind.qualified} "{name}" not found', details=about(kind, name))


def no_such_path() -> ApiRefusal:
    """Return a 404 for a path that leads nowhere."""
    return ApiRefusal(404, "the server could not find the requested resource")


def method_not_allowed() -> ApiRefusal:
    """Return a 405."""
    return ApiRefusal(405, "the server does not allow this method on the requested resource")


def already_exists(kind: Kind, name: str) -> ApiRefusal:
    """Return the 409 of a create."""
    text = f'{kind.qualified} "{name}" already exists'
    return ApiRefusal(409, text, reason="AlreadyExists", details=about(kind, name))


def conflict(kind: Kind, name: str, cause: str = MODIFIED, *, subresource: str = "") -> ApiRefusal:
    """Return the 409 of a write that came too late, or to another object than it was meant for."""
    resource = f"{kind.qualified}/{subresource}" if subresource else kind.qualified
    text = f'Operation cannot be fulfilled on {resource} "{name}": {cause}'
    return ApiRefusal(409, text, details=about(kind, name))


def precondition_failed(kind: Kind, key: str, *, what: str, wanted: str, found: str) -> ApiRefusal:
    """Return the 409 of a write that named another UID or version than the object has."""
    cause = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{kind.resource}/{key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: "
        f"{wanted}, {what} in object meta: {found}"
    )
    return conflict(kind, key.rpartition("/")[2], cause)


def expired(message: str) -> ApiRefusal:
    """Return a 410."""
    return ApiRefusal(410, message)


def unsupported_media_type(accepted: tuple[str, ...]) -> ApiRefusal:
    """Return a 415."""
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ApiRefusal(415, text + ", ".join(accepted))


def invalid(kind: Kind, name: str, field: str, cause: str) -> ApiRefusal:
    """Return the 422 of an object that breaks a rule."""
    details: Json = {"name": name, "group": kind.group, "kind": kind.name}
    details |= {"causes": [{"reason": "FieldValueInvalid", "message": cause, "field": field}]}
    details = {key: value for key, value in details.items() if value}
    return ApiRefusal(422, f'{kind.name} "{name}" is invalid: {field}: {cause}', details=details)


def version_too_large(wanted: int, current: int) -> ApiRefusal:
    """Return the 504 of a read that asks for a version which is not reached yet."""
    text = f"Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiRefusal(504, text, details={"causes": [cause], "retryAfterSeconds": 1})
