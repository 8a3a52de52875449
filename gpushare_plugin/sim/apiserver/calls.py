"""What each verb does, from the call to the answer's bytes; knows no HTTP server.

Rule: nothing is awaited here, so a call is one step; watches are elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.apiserver.access import Gate, User
from gpushare_plugin.sim.apiserver.kinds import ACCESS_REVIEW, BINDING, POD, Json
from gpushare_plugin.sim.apiserver.pages import Pages
from gpushare_plugin.sim.apiserver.patching import change_of, parsed
from gpushare_plugin.sim.apiserver.refusals import (
    about,
    bad_request,
    success,
    unsupported_media_type,
)
from gpushare_plugin.sim.apiserver.selectors import selection
from gpushare_plugin.sim.apiserver.stored import StoredObject, encoded
from gpushare_plugin.sim.apiserver.targets import Target
from gpushare_plugin.sim.apiserver.writing import Write, Writing

_OBJECT_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that was let in."""

    target: Target
    user: User
    query: Mapping[str, str]
    content_type: str
    body: bytes

    @property
    def write(self) -> Write:
        """The call as a write."""
        dry_run = self.query.get("dryRun") == "All"
        return Write(user=self.user, target=self.target, dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back."""

    body: bytes
    status: int = 200


class Calls:
    """Answers every verb but watch."""

    def __init__(self, pages: Pages, writing: Writing, gate: Gate) -> None:
        self._pages = pages
        self._writing = writing
        self._gate = gate
        self._verbs: Mapping[str, Callable[[Call], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }

    def answer(self, call: Call) -> Answer:
        """Do what is asked; raises ApiRefusal."""
        return self._verbs[call.target.verb](call)

    def _get(self, call: Call) -> Answer:
        return _whole(call, self._writing.found(call.target))

    def _list(self, call: Call) -> Answer:
        selected = selection(call.target.kind, call.target.namespace, call.query)
        return Answer(body=self._pages.answer(call.target.kind, selected, call.query))

    def _create(self, call: Call) -> Answer:
        value = _object(call)
        if call.target.kind is ACCESS_REVIEW:
            return Answer(body=encoded(self._gate.review(call.user, value)), status=201)
        if call.target.kind is BINDING or call.target.subresource == "binding":
            self._writing.bind(call.write, value)
            return Answer(body=encoded(success(code=201)), status=201)
        return _whole(call, self._writing.create(call.write, value), status=201)

    def _update(self, call: Call) -> Answer:
        return _whole(call, self._writing.update(call.write, _object(call)))

    def _patch(self, call: Call) -> Answer:
        change = change_of(call.content_type, call.body)
        return _whole(call, self._writing.patch(call.write, change))

    def _delete(self, call: Call) -> Answer:
        options: Json = parsed(call.body) if call.body else {}
        if grace := call.query.get("gracePeriodSeconds"):
            if not grace.isdecimal():
                raise bad_request(f'gracePeriodSeconds: Invalid value: "{grace}"')
            options.setdefault("gracePeriodSeconds", int(grace))
        stored = self._writing.delete(call.write, options)
        # A deleted pod is answered with itself, anything else with a Status.
        if call.target.kind is POD:
            return _whole(call, stored)
        details = about(call.target.kind, stored.name) | {"uid": stored.uid}
        return Answer(body=encoded(success(details=details)))


def _whole(call: Call, stored: StoredObject, *, status: int = 200) -> Answer:
    return Answer(body=stored.document(call.target.kind), status=status)


def _object(call: Call) -> Json:
    if call.content_type not in {"application/json", ""}:
        raise unsupported_media_type(_OBJECT_TYPES)
    value: Json = parsed(call.body)
    return value
