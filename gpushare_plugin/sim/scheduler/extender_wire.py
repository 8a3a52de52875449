"""The JSON between a scheduler and an extender: package extender/v1, as Go writes and reads it.

Rule 1: keys go out in PascalCase, in the order of the Go structs, absent parts as null.
Rule 2: keys come in in any case, unknown ones are passed over, null is the empty value; a
value of another type is an ExtenderError, as it is to Go's decoder.
Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gpushare_plugin.sim.scheduler.objects import Json, NodeInfo, PodInfo

_T = TypeVar("_T")


class ExtenderError(Exception):
    """An extender did not answer, or not what it may; the text is the scheduler's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAnswer:
    """What an extender says to a filter call."""

    fitting: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """The pods that would have to go from one node, the most important first."""

    pods: tuple[PodInfo, ...]
    disruptions: int = 0
    """How many of them a disruption budget protects (NumPDBViolations)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVictims:
    """The same by UID, as an extender answers it."""

    uids: tuple[str, ...]
    disruptions: int


def node_arguments(pod: PodInfo, nodes: Sequence[NodeInfo], *, names_only: bool) -> Json:
    """Return ExtenderArgs, for filter and prioritize."""
    listed = None if names_only else {"metadata": {}, "items": [node.value for node in nodes]}
    names = [node.name for node in nodes] if names_only else None
    return {"Pod": pod.value, "Nodes": listed, "NodeNames": names}


def binding_arguments(pod: PodInfo, node_name: str) -> Json:
    """Return ExtenderBindingArgs."""
    return {
        "PodName": pod.name,
        "PodNamespace": pod.namespace,
        "PodUID": pod.uid,
        "Node": node_name,
    }


def preemption_arguments(pod: PodInfo, victims: Mapping[str, Victims], *, names_only: bool) -> Json:
    """Return ExtenderPreemptionArgs: whole pods, or for a node cache only UIDs."""
    given = {
        name: {
            "Pods": [{"UID": each.uid} if names_only else each.value for each in found.pods],
            "NumPDBViolations": found.disruptions,
        }
        for name, found in victims.items()
    }
    return {
        "Pod": pod.value,
        "NodeNameToVictims": None if names_only else given,
        "NodeNameToMetaVictims": given if names_only else None,
    }


def decoded(body: bytes) -> Any:
    """Return the first JSON value of an answer, which is all that Go's decoder looks at."""
    text = body.decode(errors="replace").lstrip()
    if not text:
        raise ExtenderError("EOF")
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise ExtenderError(f"invalid JSON in the answer: {error}") from error


def filter_answer(value: Any, asked: Sequence[str], *, names_only: bool, url: str) -> FilterAnswer:
    """Read ExtenderFilterResult; raises ExtenderError, also for a node that was not asked about."""
    if error := _field(value, "Error", str, ""):
        raise ExtenderError(error)
    names: list[Any] | None = _field(value, "NodeNames", list, None)
    listed: dict[str, Any] | None = _field(value, "Nodes", dict, None)
    fitting: list[Any] = []
    if names_only and names is not None:
        fitting = names
    elif listed is not None:
        items = _field(listed, "items", list, [])
        fitting = [_field(_field(item, "metadata", dict, {}), "name", str, "") for item in items]
    known = frozenset(asked)
    for name in fitting:
        if name not in known:
            raise ExtenderError(
                f'extender "{url}" claims a filtered node "{name}" '
                "which is not found in the input node list"
            )
    return FilterAnswer(
        fitting=tuple(fitting),
        failed=_field(value, "FailedNodes", dict, {}),
        unresolvable=_field(value, "FailedAndUnresolvableNodes", dict, {}),
    )


def priorities(value: Any) -> Mapping[str, int]:
    """Read a HostPriorityList; scores of a node that stands there twice add up."""
    scores: dict[str, int] = {}
    for entry in _typed(value, list, []):
        host, score = _field(entry, "Host", str, ""), _field(entry, "Score", int, 0)
        scores[host] = scores.get(host, 0) + score
    return scores


def check_binding(value: Any) -> None:
    """Read ExtenderBindingResult; raises ExtenderError with its Error."""
    if error := _field(value, "Error", str, ""):
        raise ExtenderError(error)


def named_victims(value: Any) -> Mapping[str, NamedVictims]:
    """Read ExtenderPreemptionResult: an extender always answers with UIDs."""
    return {
        node: NamedVictims(
            uids=tuple(_field(pod, "UID", str, "") for pod in _field(found, "Pods", list, [])),
            disruptions=_field(found, "NumPDBViolations", int, 0),
        )
        for node, found in _field(value, "NodeNameToMetaVictims", dict, {}).items()
    }


def _field(value: Any, name: str, kind: type[_T], default: _T) -> _T:
    for key, item in (_typed(value, dict, {})).items():
        if key.lower() == name.lower():
            return _typed(item, kind, default, at=name)
    return default


def _typed(value: Any, kind: type[_T], default: _T, *, at: str = "value") -> _T:
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        found = type(value).__name__
        raise ExtenderError(f"json: cannot unmarshal {found} into Go {at} of type {kind.__name__}")
    return value
