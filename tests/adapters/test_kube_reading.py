"""What is read of a pod and of a node: all that sharing asks, and no silent 0."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.lines import Lines
from gpushare_plugin.adapters.kube.reading import node_reader, pod_reader
from gpushare_plugin.core.pods import ContainerKind, Phase, Pod, counts, requested_units
from gpushare_plugin.ports.cluster import Node

MEMORY, CORES = "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"


def container(name: str = "c", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": resources}


def read(*, spec: Any = None, status: Any = None, **metadata: Any) -> Pod:
    head = {"name": "p", "namespace": "team", "uid": "u", "resourceVersion": "7", **metadata}
    spec = {"nodeName": "node-1"} | (spec or {})
    body = json.dumps({"metadata": head, "spec": spec, "status": status or {}})
    return pod_reader([MEMORY, CORES]).read(body.encode()).item


def test_a_pod_is_read_with_what_sharing_asks() -> None:
    pod = read(
        spec={
            "initContainers": [
                container("warm-up", limits={MEMORY: "6"}),
                {**container("mesh", limits={MEMORY: "1"}), "restartPolicy": "Always"},
            ],
            "containers": [
                container("main", limits={MEMORY: "3", CORES: "50", "cpu": "500m"}),
                container("plain", limits={"memory": "1Gi"}, requests={"cpu": "1"}),
                {"name": "bare", "image": "i"},
            ],
            "schedulerName": "s",
            "priority": -10,
        },
        status={"phase": "Running", "conditions": [{"type": "Ready"}]},
        annotations={"a": "b"},
    )

    assert [(each.name, each.kind, dict(each.requests)) for each in pod.containers] == [
        ("warm-up", ContainerKind.INIT, {MEMORY: 6}),
        ("mesh", ContainerKind.SIDECAR, {MEMORY: 1}),
        ("main", ContainerKind.MAIN, {MEMORY: 3, CORES: 50}),
        ("plain", ContainerKind.MAIN, {}),
        ("bare", ContainerKind.MAIN, {}),
    ]
    assert str(pod) == "team/p"
    assert (pod.uid, pod.node_name, pod.phase) == ("u", "node-1", Phase.RUNNING)
    assert pod.annotations == {"a": "b"}
    assert (pod.priority, pod.scheduler_name) == (-10, "s")
    assert not pod.terminating
    assert not pod.fault


@pytest.mark.parametrize("quantity", ["0", "0Gi", "0m"])
def test_b25_0_units_are_no_request(quantity: str) -> None:
    pod = read(spec={"containers": [container(limits={MEMORY: quantity})]})

    [only] = pod.containers
    assert only.requests == {}
    assert not pod.fault


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        pytest.param(
            {"limits": {MEMORY: "10X"}},
            "spec.containers[c].resources.limits[aliyun.com/gpu-mem]: quantity '10X': expected",
            id="unparsable",
        ),
        pytest.param(
            {"limits": {MEMORY: "-1"}},
            "spec.containers[c].resources.limits[aliyun.com/gpu-mem]: quantity '-1': expected",
            id="negative",
        ),
        pytest.param(
            {"limits": {MEMORY: "4"}, "requests": {MEMORY: "3"}},
            "spec.containers[c].resources.requests[aliyun.com/gpu-mem] is '3', expected '4'",
            id="request-is-not-limit",
        ),
        pytest.param(
            {"limits": {MEMORY: "4"}, "requests": {MEMORY: "?"}},
            "spec.containers[c].resources.requests[aliyun.com/gpu-mem]: quantity '?': expected",
            id="request-unparsable",
        ),
        pytest.param(
            {"requests": {MEMORY: "4"}},
            "spec.containers[c].resources.requests[aliyun.com/gpu-mem] is '4' without a limit",
            id="no-limit",
        ),
        pytest.param(
            {"limits": {MEMORY: None}}, "got `null` - at `$.spec.containers[0]", id="null"
        ),
        pytest.param(
            {"limits": {MEMORY: 1.5}}, "got `float` - at `$.spec.containers[0]", id="float"
        ),
        pytest.param({"limits": 7}, "got `int` - at `$.spec.containers[0]", id="no-map"),
    ],
)
def test_b81_what_does_not_parse_is_a_fault_of_the_pod(resources: Any, told: str) -> None:
    pod = read(spec={"containers": [container(**resources)]}, status={"phase": "Running"})

    assert pod.fault.startswith("pod team/p: ")
    assert told in pod.fault
    # It stays a pod of its node all the same.
    assert counts(pod)


@pytest.mark.parametrize("quantity", ["4", pytest.param(4, id="number"), "4000m", "0.004k"])
def test_b81_however_a_quantity_is_written_it_counts_alike(quantity: str | int) -> None:
    pod = read(spec={"containers": [container(limits={MEMORY: quantity}, requests={MEMORY: "4"})]})

    assert requested_units(pod, MEMORY) == 4
    assert not pod.fault


def test_b73_a_terminating_pod_is_told_apart() -> None:
    assert read(deletionTimestamp="2026-12-01T11:50:52Z").terminating


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({}, Phase.PENDING),
        ({"phase": ""}, Phase.PENDING),
        ({"phase": "Succeeded"}, Phase.SUCCEEDED),
        ({"phase": "Hibernating"}, Phase.UNKNOWN),
    ],
)
def test_a_phase_that_is_not_known_is_not_an_end(status: Any, phase: Phase) -> None:
    assert read(status=status).phase is phase


def test_only_the_annotations_that_are_asked_for_are_kept() -> None:
    metadata = {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    annotations = {"gpushare.io/policy": "spread", "kubectl.kubernetes.io/last-applied": "x" * 99}
    body = json.dumps({"metadata": {**metadata, "annotations": annotations}}).encode()

    pod = pod_reader([], annotation_prefixes=("gpushare.io/",)).read(body).item

    assert pod.annotations == {"gpushare.io/policy": "spread"}


@pytest.mark.parametrize("missing", ["name", "uid", "resourceVersion"])
def test_an_object_that_cannot_be_told_apart_is_no_object(missing: str) -> None:
    with pytest.raises(wire.Garbled, match="expected those of an object"):
        read(**{missing: ""})


def test_a_node_is_read_with_what_publishing_asks() -> None:
    body = {
        "metadata": {
            "name": "node-1",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"gpushare": "true"},
            "annotations": {"gpushare.io/gpus": "{}"},
        },
        "spec": {"unschedulable": True},
        "status": {
            "capacity": {MEMORY: "30", "cpu": "8"},
            "allocatable": {MEMORY: "15"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
        },
    }

    node = node_reader().read(json.dumps(body).encode()).item

    assert node == Node(
        name="node-1",
        uid="u",
        labels={"gpushare": "true"},
        annotations={"gpushare.io/gpus": "{}"},
        capacity={MEMORY: "30", "cpu": "8"},
        allocatable={MEMORY: "15"},
        ready=True,
    )


@pytest.mark.parametrize("status", ["False", "Unknown", ""])
def test_a_node_that_is_not_ready_is_not_taken_for_ready(status: str) -> None:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1"}
    conditions = [{"type": "MemoryPressure", "status": "True"}]
    if status:
        conditions.append({"type": "Ready", "status": status})
    body = json.dumps({"metadata": metadata, "status": {"conditions": conditions}}).encode()

    assert not node_reader().read(body).item.ready


# ----------------------------------------------------------------------- bytes to lines


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(
    text=st.text(alphabet="ab\n", max_size=30).map(str.encode),
    cuts=st.lists(st.integers(0, 30), max_size=6),
)
def test_lines_come_out_alike_however_the_stream_is_cut(text: bytes, cuts: list[int]) -> None:
    lines, found = Lines(), []
    marks = [0, *sorted(cuts), len(text)]
    for begin, end in pairwise(marks):
        found += lines.feed(text[begin:end])

    *whole, rest = text.split(b"\n")
    assert found == [line for line in whole if line]
    assert lines.begun_bytes == len(rest)
