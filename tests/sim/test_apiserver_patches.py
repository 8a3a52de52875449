"""Patches, the status subresources, and binding."""

import pytest

from tests.sim.apiserver_peers import JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, node, pod, running

COUNT = {"aliyun.com/gpu-count": "2"}
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_a_node_status_patch_sets_status_annotations_and_labels_and_no_spec(
    kind: str,
) -> None:
    patch = {
        "metadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}},
        "spec": {"unschedulable": True},
        "status": {"capacity": COUNT},
    }
    async with running() as api:
        await api.server.create("nodes", node("n"))
        reply = await api.patch(f"{NODES}/n/status", patch, kind=kind)

        assert reply.status == 200
        assert reply.json["metadata"]["annotations"] == {"a": "1"}
        assert reply.json["metadata"]["labels"] == {"b": "2"}
        assert reply.json["status"]["capacity"] == {"cpu": "8", **COUNT}
        assert "spec" not in reply.json


@pytest.mark.parametrize("resource", ["nodes", "pods"])
async def test_a_patch_of_the_main_resource_leaves_the_status_alone(resource: str) -> None:
    path = {"nodes": f"{NODES}/x", "pods": f"{PODS}/x"}[resource]
    patch = {"metadata": {"annotations": {"a": "1"}}, "status": {"phase": "Running"}}
    async with running() as api:
        before = await api.server.create(resource, pod("x"))
        reply = await api.patch(path, patch)

        assert reply.json["metadata"]["annotations"] == {"a": "1"}
        assert api.server.get(resource, "x").get("status") == before.get("status")


async def test_a_pod_status_patch_does_not_change_an_image() -> None:
    image = {"spec": {"containers": [{"name": "main", "image": "evil:1"}]}}
    async with running() as api:
        await api.server.create("pods", pod("a"))
        reply = await api.patch(f"{PODS}/a/status", image)

        assert reply.status == 200
        assert reply.json["spec"]["containers"][0]["image"] == "app:1"


async def test_a_status_is_read_and_replaced_through_its_subresource_too() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        value = (await api.get(f"{PODS}/a/status")).json
        value["status"] = {"phase": "Running"}
        value["spec"]["nodeName"] = "n"
        reply = await api.put(f"{PODS}/a/status", value)

        assert reply.json["status"] == {"phase": "Running"}
        assert "nodeName" not in reply.json["spec"]


@pytest.mark.parametrize("path", [f"{PODS}/a", f"{PODS}/a/status"])
async def test_a_patch_for_another_uid_is_invalid(path: str) -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        reply = await api.patch(path, {"metadata": {"uid": "x"}})

        assert reply.refusal == (
            422,
            "Invalid",
            'Pod "a" is invalid: metadata.uid: Invalid value: "x": field is immutable',
        )


async def test_a_patch_for_the_right_uid_and_version_is_done() -> None:
    async with running() as api:
        metadata = (await api.server.create("pods", pod("a")))["metadata"]
        own = {key: metadata[key] for key in ("uid", "resourceVersion")}
        reply = await api.patch(f"{PODS}/a", {"metadata": {**own, "labels": {"a": "b"}}})

        assert reply.json["metadata"]["labels"] == {"a": "b"}


async def test_a_patch_for_another_version_is_a_conflict_in_the_real_words() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        reply = await api.patch(f"{PODS}/a", {"metadata": {"resourceVersion": "1"}})

        assert reply.refusal == (
            409,
            "Conflict",
            f'Operation cannot be fulfilled on pods "a": {MODIFIED}',
        )


async def test_a_patch_that_changes_nothing_makes_no_new_version() -> None:
    patch = {"metadata": {"annotations": {"a": "1"}}}
    async with running() as api:
        await api.server.create("pods", pod("a"))
        first = await api.patch(f"{PODS}/a", patch)
        again = await api.patch(f"{PODS}/a", patch)

        assert again.json == first.json


async def test_null_removes_an_annotation_and_the_last_one_the_map() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        await api.patch(f"{PODS}/a", {"metadata": {"annotations": {"a": "1", "b": "2"}}})
        one = await api.patch(f"{PODS}/a", {"metadata": {"annotations": {"a": None}}})
        none = await api.patch(f"{PODS}/a", {"metadata": {"annotations": {"b": None}}})

        assert one.json["metadata"]["annotations"] == {"b": "2"}
        assert "annotations" not in none.json["metadata"]


async def test_a_patch_of_what_is_not_there_is_not_found() -> None:
    async with running() as api:
        reply = await api.patch(f"{NODES}/x/status", {})

        assert reply.refusal == (404, "NotFound", 'nodes "x" not found')


@pytest.mark.parametrize("kind", ["application/json", "application/apply-patch+yaml"])
async def test_a_patch_of_another_format_is_refused(kind: str) -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        status, reason, message = (await api.patch(f"{PODS}/a", {}, kind=kind)).refusal

        assert (status, reason) == (415, "UnsupportedMediaType")
        assert message.endswith(f"{JSON_PATCH}, {MERGE}, {STRATEGIC}")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE, "nonsense"),
        (MERGE, []),
        (JSON_PATCH, {}),
        (JSON_PATCH, ["x"]),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels"}]),
        (JSON_PATCH, [{"op": "turn", "path": "/metadata/labels"}]),
        (STRATEGIC, {"$patch": "turn"}),
        (STRATEGIC, {"spec": {"containers": [{"image": "x"}]}}),
        (MERGE, {"metadata": {"name": "b"}}),
        (MERGE, {"metadata": {"labels": {"a": 1}}}),
    ],
)
async def test_a_patch_that_makes_no_sense_is_a_bad_request(kind: str, body: object) -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        reply = await api.patch(f"{PODS}/a", body, kind=kind)

        assert reply.refusal[:2] == (400, "BadRequest")


async def test_a_json_patch_is_done_whole_or_not_at_all() -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    test = {"op": "test", "path": "/metadata/name", "value": "other"}
    async with running() as api:
        before = await api.server.create("pods", pod("a"))
        refused = await api.patch(f"{PODS}/a", [label, test], kind=JSON_PATCH)
        unchanged = api.server.get("pods", "a") == before
        done = await api.patch(f"{PODS}/a", [label], kind=JSON_PATCH)

        assert refused.refusal[:2] == (422, "Invalid")
        assert unchanged
        assert done.json["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("capacity", "status"),
    [
        ({"aliyun.com/gpu-mem": "15"}, 200),
        ({"aliyun.com/gpu-mem": 15}, 200),
        ({"memory": "1.5Gi"}, 200),
        ({"aliyun.com/gpu-mem": "1.5"}, 422),
        ({"aliyun.com/gpu-mem": "many"}, 400),
        ({"aliyun.com/gpu-mem": True}, 400),
    ],
)
async def test_amounts_in_a_nodes_status_are_quantities_and_whole_where_extended(
    capacity: dict[str, object], status: int
) -> None:
    async with running() as api:
        await api.server.create("nodes", node("n"))
        reply = await api.patch(f"{NODES}/n/status", {"status": {"capacity": capacity}})

        assert reply.status == status
        kept = api.server.get("nodes", "n")["status"]["capacity"]
        assert all(isinstance(amount, str) for amount in kept.values())
