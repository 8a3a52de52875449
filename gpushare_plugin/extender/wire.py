"""The scheduler's JSON: `k8s.io/kube-scheduler/extender/v1`, read and written.

Rule 1: its types have no JSON tags, so keys are Go's field names, and Go reads them in any
letter case: so do we (schedulers before 1.18 send lower case). We write Go's names.
Rule 2: the only importer of msgspec here; what cannot be read is a RequestError, whatever
the bytes are.
Rule 3: a list of names is not parsed again while its bytes are known, and a reply is made
of bytes that are kept: 5,000 names are asked about for each pod that is placed.
Rule 4: a pod's name and namespace become part of a path at the API server: what Kubernetes
would not take for a name is refused here, and leads nowhere else.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import RequestError
from gpushare_plugin.extender.binding import BindCall
from gpushare_plugin.extender.inspecting import InspectCard, InspectPage
from gpushare_plugin.extender.names import NameList, NameLists
from gpushare_plugin.extender.preempting import GivenVictims

Json = bytes | Raw
"""JSON text: a body, or a part of one that is not decoded yet."""
ReadPod = Callable[[Json], Pod]
"""Reads a v1.Pod; raises RequestError."""
Value = TypeVar("Value")


class _Metadata(Struct, frozen=True, gc=False):
    name: str = ""
    uid: str = ""


class _AnyObject(Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


class _NodeList(Struct, frozen=True, gc=False):
    items: list[Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderArgs:
    """What filter and prioritize are asked: one pod, and the nodes to choose from."""

    pod: Pod
    names: NameList
    nodes: tuple[Raw, ...] | None = None
    """The Node objects as they came, one for each name; None where only names came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionArgs:
    """What preempt is asked: for each node, whom the scheduler would evict for the pod."""

    pod: Pod
    victims: Mapping[str, GivenVictims]


def _reading(kind: type[Value], what: str) -> Callable[[Json], Value]:
    """Return the function that reads JSON of this type; it raises RequestError."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: Json) -> Value:
        try:
            return decode(body)
        # Invalid UTF-8 is told by Python's own error, and so is JSON nested too deep.
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(f"{what}: {error}") from error

    return read


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LONGEST_SHOWN = 80


def _named(namespace: str, name: str, what: str) -> None:
    """Make sure that these are names; raises RequestError."""
    for text in (namespace, name):
        if _NAME.fullmatch(text) is None:
            raise RequestError(
                f"{what}: found {text[:LONGEST_SHOWN]!r}, expected a name of lower-case letters,"
                " digits, - or ."
            )


_keys = _reading(dict[str, Raw], "request body")
_names = _reading(tuple[str, ...], "NodeNames")
_node_list = _reading(_NodeList, "Nodes")
_node = _reading(_AnyObject, "Nodes.items")
_victims_by_node = _reading(dict[str, Raw], "victims by node")
_victims = _reading(dict[str, Raw], "victims of a node")
_victim_pods = _reading(list[Raw], "Pods of a node's victims")
_victim_pod = _reading(_AnyObject, "a victim")
_victim_keys = _reading(dict[str, Raw], "a victim")
_number = _reading(int, "NumPDBViolations")
_text = _reading(str, "a field of the binding")


def _fields(read: Callable[[Json], dict[str, Raw]], body: Json) -> dict[str, Raw]:
    """Return an object's fields by lower-case key, without those that are null."""
    found = {key.lower(): value for key, value in read(body).items()}
    return {key: value for key, value in found.items() if not _is_null(value)}


def _is_null(value: Raw) -> bool:
    return bytes(memoryview(value)[:1]) == b"n"


class ArgsReader:
    """Reads what the scheduler asks."""

    def __init__(self, read_pod: ReadPod) -> None:
        self._read_pod = read_pod
        self._lists = NameLists(_names)

    def extender_args(self, body: bytes) -> ExtenderArgs:
        """Read the arguments of filter and prioritize; raises RequestError."""
        fields = _fields(_keys, body)
        pod = self._pod(fields)
        if "nodenames" in fields:
            args = ExtenderArgs(pod=pod, names=self._lists.of(bytes(fields["nodenames"])))
        elif "nodes" in fields:
            nodes = tuple(_node_list(fields["nodes"]).items or ())
            names = NameList(tuple(map(_name_of, nodes)))
            args = ExtenderArgs(pod=pod, names=names, nodes=nodes)
        else:
            raise RequestError(
                "found neither NodeNames nor Nodes, expected the nodes to choose from"
            )
        if not len(args.names):
            raise RequestError("found no node, expected at least one to choose from")
        return args

    def binding_args(self, body: bytes) -> BindCall:
        """Read the arguments of bind; raises RequestError."""
        fields = _fields(_keys, body)
        texts = {key: _text(fields[key]) if key in fields else "" for key in _BINDING_KEYS}
        missing = [name for key, name in _BINDING_KEYS.items() if not texts[key]]
        if missing:
            raise RequestError(
                f"found no {' and no '.join(missing)}, expected the pod and its node"
            )
        _named(texts["podnamespace"], texts["podname"], "PodNamespace and PodName")
        return BindCall(
            namespace=texts["podnamespace"],
            name=texts["podname"],
            uid=texts["poduid"],
            node_name=texts["node"],
        )

    def preemption_args(self, body: bytes) -> PreemptionArgs:
        """Read the arguments of preempt, victims by UID or as whole pods; raises RequestError."""
        fields = _fields(_keys, body)
        pod = self._pod(fields)
        if "nodenametometavictims" in fields:
            by_node, uid_of = fields["nodenametometavictims"], _uid_of_name
        elif "nodenametovictims" in fields:
            by_node, uid_of = fields["nodenametovictims"], _uid_of_pod
        else:
            raise RequestError(
                "found neither NodeNameToMetaVictims nor NodeNameToVictims, expected one of them"
            )
        victims = {
            node_name: _given(raw, uid_of) for node_name, raw in _victims_by_node(by_node).items()
        }
        return PreemptionArgs(pod=pod, victims=victims)

    def _pod(self, fields: Mapping[str, Raw]) -> Pod:
        if "pod" not in fields:
            raise RequestError("found no Pod, expected the pod that is to be placed")
        pod = self._read_pod(fields["pod"])
        _named(pod.namespace, pod.name, "Pod")
        return pod


_BINDING_KEYS = {
    "podname": "PodName",
    "podnamespace": "PodNamespace",
    "poduid": "PodUID",
    "node": "Node",
}


def _name_of(body: Raw) -> str:
    name = _node(body).metadata.name
    if not name:
        raise RequestError("Nodes.items: found a node without a name, expected metadata.name")
    return name


def _given(body: Raw, uid_of: Callable[[Raw], str]) -> GivenVictims:
    if _is_null(body):
        return GivenVictims(uids=(), pdb_violations=0)
    fields = _fields(_victims, body)
    pods = _victim_pods(fields["pods"]) if "pods" in fields else []
    violations = _number(fields["numpdbviolations"]) if "numpdbviolations" in fields else 0
    return GivenVictims(uids=tuple(map(uid_of, pods)), pdb_violations=violations)


def _uid_of_pod(body: Raw) -> str:
    return _uid(_victim_pod(body).metadata.uid)


def _uid_of_name(body: Raw) -> str:
    fields = _fields(_victim_keys, body)
    return _uid(_text(fields["uid"]) if "uid" in fields else "")


def _uid(uid: str) -> str:
    if not uid:
        raise RequestError("a victim: found no UID, expected that of a pod")
    return uid


# ------------------------------------------------------------------------------- answers

_encode = msgspec.json.Encoder().encode


def encoded(value: object) -> bytes:
    """Return the JSON of a value made of maps, sequences, texts and numbers."""
    return _encode(value)


def binding_result(text: str) -> bytes:
    """Return the ExtenderBindingResult; an empty text is success."""
    return _encode({"Error": text})


def filter_error(text: str) -> bytes:
    """Return an ExtenderFilterResult that says why there is none."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes")
    )
    return _encode({**nothing, "Error": text})


def host_priorities(scores: Sequence[tuple[str, int]]) -> bytes:
    """Return the HostPriorityList."""
    return _encode([{"Host": node_name, "Score": score} for node_name, score in scores])


def preemption_result(victims: Mapping[str, GivenVictims]) -> bytes:
    """Return the ExtenderPreemptionResult."""
    by_node = {
        node_name: {
            "Pods": [{"UID": uid} for uid in each.uids],
            "NumPDBViolations": each.pdb_violations,
        }
        for node_name, each in victims.items()
    }
    return _encode({"NodeNameToMetaVictims": by_node})


def inspect_result(page: InspectPage, *, error: str = "") -> bytes:
    """Return the original's inspect page; `error` is there only if it says something."""
    nodes = [
        {
            "name": node.name,
            "totalGPU": node.total_units,
            "usedGPU": node.used_units,
            "devs": [_device(card) for card in node.cards],
        }
        for node in page.nodes
    ]
    return _encode({"nodes": nodes, **({"error": error} if error else {})})


def _device(card: InspectCard) -> dict[str, object]:
    pods = [
        {"name": pod.name, "namespace": pod.namespace, "usedGPU": pod.used_units}
        for pod in card.pods
    ]
    return {
        "id": card.index,
        "totalGPU": card.total_units,
        "usedGPU": card.used_units,
        "pods": pods,
    }
