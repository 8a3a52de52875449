"""Label and field selectors: read once, then asked of every object.

Rule: a field that a kind cannot be selected by, and a selector that does not
parse, is a 400; never a selection of everything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.apiserver.kinds import Kind, stored_kind
from gpushare_plugin.sim.apiserver.refusals import bad_request
from gpushare_plugin.sim.apiserver.stored import StoredObject

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EXISTS = re.compile(rf"(?P<not>!?)\s*(?P<key>{_KEY})")
_EQUALS = re.compile(rf"(?P<key>{_KEY})\s*(?P<sign>==|!=|=)\s*(?P<value>{_VALUE})")
_IN = re.compile(rf"(?P<key>{_KEY})\s+(?P<not>not)?in\s*\((?P<values>[^()]*)\)")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"(?P<key>[^=!]+)(?P<sign>==|!=|=)(?P<value>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One term of a selector."""

    key: str
    values: frozenset[str] | None
    """None: any value will do, if there is one."""
    negated: bool = False

    def holds(self, found: Mapping[str, str]) -> bool:
        """Whether the labels or fields at hand satisfy it; what is absent satisfies a negation."""
        there = self.key in found and (self.values is None or found[self.key] in self.values)
        return there is not self.negated


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of one kind a list or watch is about."""

    namespace: str = ""
    """Empty for all."""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, stored: StoredObject) -> bool:
        """Whether the object is selected."""
        return (
            self.namespace in {"", stored.namespace}
            and all(term.holds(stored.fields) for term in self.fields)
            and all(term.holds(stored.labels) for term in self.labels)
        )


def selection(kind: Kind, namespace: str, query: Mapping[str, str]) -> Selection:
    """Read the selectors of a query; raises ApiRefusal for what does not parse."""
    return Selection(
        namespace=namespace,
        labels=_label_terms(query.get("labelSelector", "")),
        fields=_field_terms(kind, query.get("fieldSelector", "")),
    )


def _label_terms(text: str) -> tuple[Requirement, ...]:
    if not text.strip():
        return ()
    return tuple(_label_term(part.strip()) for part in _COMMA_OUTSIDE_PARENTHESES.split(text))


def _label_term(text: str) -> Requirement:
    if match := _IN.fullmatch(text):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(key=match["key"], values=values, negated=bool(match["not"]))
    if match := _EQUALS.fullmatch(text):
        values = frozenset({match["value"]})
        return Requirement(key=match["key"], values=values, negated=match["sign"] == "!=")
    if match := _EXISTS.fullmatch(text):
        return Requirement(key=match["key"], values=None, negated=bool(match["not"]))
    raise bad_request(f'unable to parse requirement: found "{text}"')


def _field_terms(kind: Kind, text: str) -> tuple[Requirement, ...]:
    return tuple(_field_term(kind, part, text) for part in text.split(",") if part)


def _field_term(kind: Kind, part: str, whole: str) -> Requirement:
    match = _FIELD.fullmatch(part)
    if match is None:
        raise bad_request(f"invalid selector: '{whole}'; can't understand '{part}'")
    if match["key"] not in kind.fields:
        raise bad_request(
            f'Unable to find "{kind.group}/{kind.version}, Resource={kind.resource}" that match '
            f'label selector "", field selector "{whole}": '
            f"field label not supported: {match['key']}"
        )
    return Requirement(
        key=_stored_name(kind, match["key"]),
        values=frozenset({match["value"]}),
        negated=match["sign"] == "!=",
    )


def _stored_name(kind: Kind, path: str) -> str:
    """Return the field's name in the version that objects are kept in."""
    head, dot, rest = path.partition(".")
    name = f"{kind.renamed.get(head, head)}{dot}{rest}"
    return name if name in stored_kind(kind).fields else path
