"""Binding a pod to a node, and the calls that the original programs make."""

from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import AdmissionRequest, Denial
from tests.sim.apiserver_peers import NODES, PODS, STRATEGIC, node, pod, running

COUNT = {"aliyun.com/gpu-count": "2"}


def binding(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **metadata}, "target": {"kind": "Node", "name": "n"}}


@pytest.mark.parametrize("path", [f"{PODS}/a/binding", "/api/v1/namespaces/default/bindings"])
async def test_a_binding_sets_node_and_annotations_in_one_step(path: str) -> None:
    async with running() as api:
        made = await api.server.create("pods", pod("a") | {"status": {"phase": "Pending"}})
        await api.patch(f"{PODS}/a", {"metadata": {"annotations": {"kept": "0"}}})
        before = api.server.state().resource_version
        reply = await api.post(path, binding(uid=made["metadata"]["uid"], annotations={"IDX": "1"}))

        assert reply.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "code": 201,
        }
        assert reply.status == 201
        bound = api.server.get("pods", "a")
        assert bound["spec"]["nodeName"] == "n"
        assert bound["metadata"]["annotations"] == {"kept": "0", "IDX": "1"}
        assert bound["metadata"]["resourceVersion"] == str(before + 1)
        (condition,) = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_a_pod_is_bound_once() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a", nodeName="m"))
        reply = await api.post(f"{PODS}/a/binding", binding())

        assert reply.refusal == (
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on pods/binding "a": '
                'pod a is already assigned to node "m"'
            ),
        )


async def test_a_binding_for_another_uid_is_a_conflict_and_changes_nothing() -> None:
    async with running() as api:
        before = await api.server.create("pods", pod("a"))
        reply = await api.post(f"{PODS}/a/binding", binding(uid="x", annotations={"IDX": "1"}))

        assert reply.refusal[:2] == (409, "Conflict")
        assert "Precondition failed: UID in precondition: x" in reply.refusal[2]
        assert api.server.get("pods", "a") == before


async def test_a_pod_on_its_way_out_is_not_bound() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        await api.server.terminate_pod("a")
        reply = await api.post(f"{PODS}/a/binding", binding())

        assert reply.refusal[:2] == (409, "Conflict")
        assert "is being deleted, cannot be assigned to a host" in reply.refusal[2]


async def test_a_pod_that_is_held_back_is_not_bound() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a", schedulingGates=[{"name": "wait"}]))
        reply = await api.post(f"{PODS}/a/binding", binding())

        assert reply.refusal[:2] == (409, "Conflict")
        assert "pod a has non-empty .spec.schedulingGates" in reply.refusal[2]


async def test_the_calls_of_the_original_programs_are_understood() -> None:
    """As they were recorded from the Go plugin and the Go extender."""
    count = '{"status":{"allocatable":{"aliyun.com/gpu-count":"2"},"capacity":'
    count += '{"aliyun.com/gpu-count":"2"}}}'
    choice = '{"metadata":{"annotations":{"ALIYUN_COM_GPU_MEM_ASSIGNED":"false",'
    choice += '"ALIYUN_COM_GPU_MEM_IDX":"0"}}}'
    bind = '{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p1","uid":"uid-default-p1",'
    bind += '"creationTimestamp":null},"target":{"kind":"Node","name":"gpu-a"}}\n'
    value = pod("p1")
    value["metadata"]["uid"] = "uid-default-p1"
    async with running() as api:
        await api.server.create("nodes", node("gpu-a"))
        await api.server.create("pods", value)
        replies = [
            await api.patch(f"{NODES}/gpu-a/status", count, kind=STRATEGIC),
            await api.patch(f"{PODS}/p1", choice, kind=STRATEGIC),
            await api.post(f"{PODS}/p1/binding", bind),
            await api.get("/api/v1/pods", fieldSelector="status.phase=Pending,spec.nodeName=gpu-a"),
        ]

        assert [reply.status for reply in replies] == [200, 200, 201, 200]
        assert replies[0].json["status"]["capacity"] == {"cpu": "8", **COUNT}
        assert replies[3].names == ["p1"]
        (listed,) = replies[3].json["items"]
        assert listed["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] == "0"


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (binding() | {"target": {"kind": "Pod", "name": "n"}}, 422),
        (binding() | {"target": {"kind": "Node"}}, 422),
        (binding(name="b"), 400),
    ],
)
async def test_a_binding_that_makes_no_sense_is_refused(value: object, status: int) -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        reply = await api.post(f"{PODS}/a/binding", value)

        assert reply.refusal[0] == status


async def test_a_binding_of_a_pod_that_is_not_there_is_not_found() -> None:
    async with running() as api:
        reply = await api.post(f"{PODS}/a/binding", binding())

        assert reply.refusal == (404, "NotFound", 'pods "a" not found')


class NoBindings:
    """A policy that lets nobody bind."""

    def denial(self, request: AdmissionRequest) -> Denial | None:
        return Denial(policy="p", binding="b", message=f"no {request.target.resource}")


async def test_policies_are_asked_before_anybody_looks_at_the_pod() -> None:
    async with running() as api:
        api.server.set_policies([NoBindings()])
        reply = await api.post(f"{PODS}/a/binding", binding())

        assert reply.refusal[0] == 422
