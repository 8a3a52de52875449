"""The scheduler's JSON: every spelling of the same is the same, and junk is told, not died of."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.app.extender import request_pod_reader
from gpushare_plugin.errors import RequestError
from gpushare_plugin.extender import wire
from gpushare_plugin.extender.filter_result import FilterReplies
from gpushare_plugin.extender.filtering import Filtered
from gpushare_plugin.extender.inspecting import InspectPage
from gpushare_plugin.extender.preempting import GivenVictims
from tests.extender.http_sites import READER, pod_json


def reader() -> wire.ArgsReader:
    return wire.ArgsReader(request_pod_reader(READER))


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def recased(text: str, upper: list[bool]) -> str:
    pairs = zip(text, upper * len(text), strict=False)
    return "".join(letter.upper() if up else letter.lower() for letter, up in pairs)


CASES = st.lists(st.booleans(), min_size=1, max_size=22)
NODES = {"items": [{"metadata": {"name": "a"}, "spec": {"x": 1}}, {"metadata": {"name": "b"}}]}

# -------------------------------------------------------------------- what is asked


@given(case=CASES)
def test_top_level_keys_are_read_in_any_letter_case(case: list[bool]) -> None:
    sent = {"Pod": pod_json(), "Nodes": None, "NodeNames": ["a", "b"]}
    args = reader().extender_args(body(**{recased(key, case): it for key, it in sent.items()}))

    assert (args.pod.name, args.names.names, args.nodes) == ("p", ("a", "b"), None)


@given(case=CASES)
def test_a_binding_is_read_in_any_letter_case(case: list[bool]) -> None:
    sent = {"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"}
    call = reader().binding_args(body(**{recased(key, case): it for key, it in sent.items()}))

    assert (call.name, call.namespace, call.uid, call.node_name) == ("p", "n", "u", "a")


@given(case=CASES)
def test_victims_are_read_in_any_letter_case_as_whole_pods_or_by_uid(case: list[bool]) -> None:
    whole = {"Pods": [{"metadata": {"uid": "u1"}}, {"metadata": {"uid": "u2"}}]}
    by_uid = {"Pods": [{"UID": "u1"}, {"UID": "u2"}]}
    for key, victims in (("NodeNameToVictims", whole), ("NodeNameToMetaVictims", by_uid)):
        inner = {
            recased(name, case): it for name, it in (victims | {"NumPDBViolations": 1}).items()
        }
        sent = {recased("Pod", case): pod_json(), recased(key, case): {"Node-A": inner}}

        args = reader().preemption_args(body(**sent))

        assert args.victims == {"Node-A": GivenVictims(uids=("u1", "u2"), pdb_violations=1)}


def test_whole_nodes_give_their_names_and_are_kept_as_they_came() -> None:
    args = reader().extender_args(body(Pod=pod_json(), Nodes=NODES, NodeNames=None))

    assert args.names.names == ("a", "b")
    assert [json.loads(bytes(each)) for each in args.nodes or ()] == NODES["items"]


def test_the_same_list_of_names_is_parsed_once() -> None:
    read = reader()
    first = read.extender_args(body(Pod=pod_json("p"), NodeNames=["a", "b"]))
    again = read.extender_args(body(Pod=pod_json("q"), NodeNames=["a", "b"]))
    other = read.extender_args(body(Pod=pod_json("p"), NodeNames=["b", "a"]))

    assert first.names is again.names
    assert other.names.names == ("b", "a")


def test_names_that_json_has_to_escape_are_read_and_written() -> None:
    name = 'a"\\\u00e4\u2028'
    args = reader().extender_args(body(Pod=pod_json(), NodeNames=[name]))
    reply = FilterReplies().reply(args, Filtered(fits=bytes((1, 0))))

    assert json.loads(reply)["NodeNames"] == [name]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "truncated"),
        (b"null", "Expected `object`, got `null`"),
        (b"[]", "got `array`"),
        (b'"x"', "got `str`"),
        (b"{", "truncated"),
        (b"{}x", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b'{"Pod": null, "NodeNames": ["a"]}', "found no Pod"),
        (b'{"NodeNames": ["a"]}', "found no Pod"),
        (body(Pod=7, NodeNames=["a"]), "Pod: Expected `object`, got `int`"),
        (body(Pod={}, NodeNames=["a"]), "Pod: no metadata.uid"),
        (body(Pod=pod_json("../p"), NodeNames=["a"]), "Pod: found '../p', expected a name"),
        (body(Pod=pod_json()), "found neither NodeNames nor Nodes"),
        (body(Pod=pod_json(), Nodes=None, NodeNames=None), "found neither NodeNames nor Nodes"),
        (body(Pod=pod_json(), NodeNames=[]), "found no node"),
        (body(Pod=pod_json(), Nodes={"items": None}), "found no node"),
        (body(Pod=pod_json(), NodeNames="a"), "NodeNames: Expected `array`"),
        (body(Pod=pod_json(), NodeNames=["a", None]), "NodeNames: Expected `str`, got `null`"),
        (body(Pod=pod_json(), NodeNames=[1]), "NodeNames: Expected `str`, got `int`"),
        (body(Pod=pod_json(), Nodes=[]), "Nodes: Expected `object`"),
        (body(Pod=pod_json(), Nodes={"items": [{"metadata": {"name": 1}}]}), "Nodes.items"),
        (body(Pod=pod_json(), Nodes={"items": [{}]}), "without a name"),
        (b'{"Pod":' + b"[" * 100_000, "recursion"),
    ],
)
def test_b65_what_cannot_be_read_says_what_was_found(sent: bytes, words: str) -> None:
    with pytest.raises(RequestError, match=words.replace("(", r"\(")):
        reader().extender_args(sent)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"{}", "no PodName and no PodNamespace and no PodUID and no Node"),
        (body(PodName="p", PodNamespace="n", PodUID="u", Node=""), "found no Node,"),
        (body(PodName=1, PodNamespace="n", PodUID="u", Node="a"), "Expected `str`, got `int`"),
        (
            body(PodName="../../secrets/s", PodNamespace="n", PodUID="u", Node="a"),
            "expected a name",
        ),
        (body(PodName="p?watch=1", PodNamespace="n", PodUID="u", Node="a"), "expected a name"),
        (body(PodName="p", PodNamespace="..", PodUID="u", Node="a"), "expected a name"),
    ],
)
def test_a_binding_that_lacks_something_is_told(sent: bytes, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        reader().binding_args(sent)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "found neither NodeNameToMetaVictims nor NodeNameToVictims"),
        ({"NodeNameToMetaVictims": []}, "victims by node: Expected `object`"),
        ({"NodeNameToMetaVictims": {"a": 1}}, "victims of a node: Expected `object`"),
        ({"NodeNameToMetaVictims": {"a": {"Pods": 1}}}, "Expected `array`"),
        ({"NodeNameToMetaVictims": {"a": {"Pods": [{}]}}}, "found no UID"),
        ({"NodeNameToVictims": {"a": {"Pods": [{"metadata": {}}]}}}, "found no UID"),
        ({"NodeNameToMetaVictims": {"a": {"NumPDBViolations": "x"}}}, "NumPDBViolations: Expected"),
    ],
)
def test_victims_that_cannot_be_read_are_told(sent: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        reader().preemption_args(body(Pod=pod_json(), **sent))


def test_victims_of_a_node_may_be_none() -> None:
    by_node = {"a": None, "b": {"Pods": None}}
    args = reader().preemption_args(body(Pod=pod_json(), NodeNameToMetaVictims=by_node))

    nobody = GivenVictims(uids=(), pdb_violations=0)
    assert args.victims == {"a": nobody, "b": nobody}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(["Pod", "nodes", "NodeNames", "PodName", "Node", "NodeNameToMetaVictims"]), JUNK
)


@given(sent=st.binary(max_size=60) | FIELDS.map(lambda found: json.dumps(found).encode()))
def test_b65_junk_is_refused_in_our_words_and_never_otherwise(sent: bytes) -> None:
    read = reader()
    for read_args in (read.extender_args, read.binding_args, read.preemption_args):
        with pytest.raises(RequestError):
            read_args(sent)


# ------------------------------------------------------------------ what is answered


def test_names_are_answered_with_names_and_gos_field_names() -> None:
    args = reader().extender_args(body(Pod=pod_json(), NodeNames=["a", "b", "c"]))
    answer = Filtered(fits=bytes((1, 0, 1)), failed={"b": "full"}, unresolvable={})

    assert FilterReplies().reply(args, answer) == (
        b'{"Nodes":null,"NodeNames":["a","c"],"FailedNodes":{"b":"full"},'
        b'"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def test_whole_nodes_are_answered_with_these_very_nodes() -> None:
    args = reader().extender_args(body(Pod=pod_json(), Nodes=NODES))
    answer = Filtered(fits=bytes((1, 0)), failed={}, unresolvable={"b": "no card"})
    reply = json.loads(FilterReplies().reply(args, answer))

    assert reply["Nodes"] == {"metadata": {}, "items": [NODES["items"][0]]}
    assert reply["NodeNames"] is None
    assert reply["FailedAndUnresolvableNodes"] == {"b": "no card"}


def test_nothing_that_fits_is_an_empty_list_and_not_null() -> None:
    for sent in (body(Pod=pod_json(), NodeNames=["a"]), body(Pod=pod_json(), Nodes=NODES)):
        args = reader().extender_args(sent)
        reply = json.loads(FilterReplies().reply(args, Filtered(fits=bytes(2))))

        assert (reply["NodeNames"], reply["Nodes"]) in (
            ([], None),
            (None, {"metadata": {}, "items": []}),
        )


def test_the_same_answer_has_the_same_bytes_and_another_has_its_own() -> None:
    args = reader().extender_args(body(Pod=pod_json(), NodeNames=["a", "b"]))
    replies = FilterReplies()
    one, other = Filtered(fits=bytes((1, 0))), Filtered(fits=bytes((0, 1)))

    first = replies.reply(args, one)
    assert replies.reply(args, other) != first
    assert replies.reply(args, one) is first
    for _ in range(100):
        replies.reply(args, Filtered(fits=bytes((0, 1))))
    assert replies.reply(args, one) == first


def test_errors_stand_where_a_scheduler_reads_them() -> None:
    assert wire.filter_error('so "it" is') == (
        b'{"Nodes":null,"NodeNames":null,"FailedNodes":null,'
        b'"FailedAndUnresolvableNodes":null,"Error":"so \\"it\\" is"}'
    )
    assert wire.binding_result("") == b'{"Error":""}'


def test_priorities_victims_and_inspect_are_written_as_go_reads_them() -> None:
    victims = {"a": GivenVictims(uids=("u1",), pdb_violations=2)}

    assert wire.host_priorities((("a", 10), ("b", 0))) == (
        b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'
    )
    assert wire.preemption_result(victims) == (
        b'{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u1"}],"NumPDBViolations":2}}}'
    )
    assert wire.inspect_result(InspectPage(nodes=())) == b'{"nodes":[]}'
