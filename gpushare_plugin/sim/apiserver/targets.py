"""What a request is about: verb, kind, subresource, namespace, name.

Rule: the same answer that the real server gives to its authorizer, so that a
rule which allows a call here allows it there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.apiserver.kinds import NAMESPACE, SERVED, Kind
from gpushare_plugin.sim.apiserver.refusals import method_not_allowed, no_such_path

_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/(?P<rest>.+?)/?")
_NAME_FIELD = re.compile(r"metadata\.name==?([^,]+)")
_KINDS = {(kind.group, kind.version, kind.resource): kind for kind in SERVED}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_SUBRESOURCE_VERBS = {
    "status": {"GET": "get", "PUT": "update", "PATCH": "patch"},
    "binding": {"POST": "create"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One request's aim."""

    verb: str
    kind: Kind
    namespace: str = ""
    """Empty at the cluster scope."""
    name: str = ""
    """For list and watch, the one name that the field selector asks for, if any."""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource with its subresource, as rules name it."""
        kind = self.kind.resource
        return f"{kind}/{self.subresource}" if self.subresource else kind


def target_of(method: str, path: str, query: Mapping[str, str]) -> Target:
    """Return what a request is about; raises ApiRefusal for what the server does not have."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise no_such_path()
    group, version = match["group"] or "", match["version"]
    namespace, parts = _split(match["rest"].split("/"))
    kind = _KINDS.get((group, version, parts[0]))
    if kind is None or len(parts) > 3 or (namespace and not kind.namespaced):  # noqa: PLR2004
        raise no_such_path()
    name, subresource = [*parts[1:], "", ""][:2]
    if subresource and subresource not in kind.subresources:
        raise no_such_path()
    if name and kind.namespaced and not namespace:
        raise no_such_path()
    target = Target(
        verb=_verb(method, query, name=name, subresource=subresource),
        kind=kind,
        namespace=namespace,
        name=name or _name_asked_for(method, query),
        subresource=subresource,
    )
    nowhere = target.verb == "create" and kind.namespaced and not namespace
    if nowhere or (not subresource and target.verb not in kind.verbs):
        raise method_not_allowed()
    return target


def _split(parts: list[str]) -> tuple[str, list[str]]:
    """Take the namespace off, unless the namespace itself is meant."""
    if parts[0] == NAMESPACE.resource and len(parts) > 2:  # noqa: PLR2004
        return parts[1], parts[2:]
    return "", parts


def _verb(method: str, query: Mapping[str, str], *, name: str, subresource: str) -> str:
    if subresource:
        verb = _SUBRESOURCE_VERBS[subresource].get(method)
    else:
        verb = (_OBJECT_VERBS if name else _COLLECTION_VERBS).get(method)
    if verb is None:
        raise method_not_allowed()
    return "watch" if verb == "list" and is_true(query.get("watch", "")) else verb


def _name_asked_for(method: str, query: Mapping[str, str]) -> str:
    match = _NAME_FIELD.search(query.get("fieldSelector", "")) if method == "GET" else None
    return match[1] if match else ""


def is_true(text: str) -> bool:
    """Whether a query parameter says yes."""
    return text in {"1", "t", "T", "true", "True", "TRUE"}
