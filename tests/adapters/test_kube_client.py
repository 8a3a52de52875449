"""The calls: what is asked of the API server, and what is said when it does not go well."""

import json
from contextlib import aclosing
from typing import Any

import pytest

import gpushare_plugin
from gpushare_plugin.errors import (
    ApiConflict,
    ApiExpired,
    ApiUnavailable,
)
from gpushare_plugin.ports.cluster import Bookmark, Opened, Present, StatusPatch
from gpushare_plugin.sim.apiserver import (
    ApiServerSettings,
    Fault,
    FaultKind,
    SimApiServer,
)
from tests.adapters.kube_servers import MEMORY, answer, client_of, scripted


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    limits = {MEMORY: "2"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"nodeName": "node-1", "containers": [container], **spec},
        "status": {"phase": "Running"},
    }


# ------------------------------------------------------------------------------ reading


async def test_a_list_is_read_page_by_page_as_of_one_version() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create_many("pods", pod("p{n}"), 1300)
        before = server.state().resource_version

        found = await client.list_pods()

        assert found.version == str(before)
        assert len({each.uid for each in found.objects}) == 1300
        calls = await server.called("list pods")
        limits = [int(call.query["limit"]) for call in calls]
        assert limits[:2] == [100, 200]
        assert max(limits) in range(201, 501)


async def test_pages_that_are_forgotten_in_the_middle_begin_anew() -> None:
    def page(version: int, *names: str, more: str = "") -> bytes:
        items = [
            {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in names
        ]
        metadata = {"resourceVersion": f"{version}", "continue": more}
        return answer(json.dumps({"metadata": metadata, "items": items}).encode())

    gone = answer(b'{"kind":"Status","code":410,"message":"too old"}', status="410 Gone")
    async with (
        scripted(page(5, "a", more="t"), gone, page(9, "b", more="u"), page(9, "c")) as api,
        client_of(api.address) as client,
    ):
        found = await client.list_pods()

        assert [each.uid for each in found.objects] == ["b", "c"]
        assert found.version == "9"
        assert ["continue=t" in head for head in api.requests] == [False, True, False, False]


async def test_a_list_that_is_forgotten_again_and_again_is_an_error() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.inject(Fault(kind=FaultKind.STATUS, status=410, resource="pods"))

        with pytest.raises(ApiExpired, match=r"^list pods: .*410.*list again"):
            await client.list_pods()


async def test_large_objects_make_smaller_pages() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        large = pod("p{n}")
        large["metadata"]["annotations"] = {"ids": "x" * 60_000}
        await server.create_many("pods", large, 130)

        found = await client.list_pods()

        assert len(found.objects) == 130
        first, second, *_ = [call.query["limit"] for call in await server.called("list pods")]
        assert first == "100"
        assert int(second) < 20


async def test_selectors_are_passed_on() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod("a"))
        labelled = pod("b")
        labelled["metadata"]["labels"] = {"app": "x"}
        await server.create("pods", labelled)

        found = await client.list_pods(
            field_selector="spec.nodeName=node-1", label_selector="app=x"
        )

        assert [str(each.item) for each in found.objects] == ["team/b"]


async def test_one_pod_and_one_node_are_read() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod())
        await server.create("nodes", {"metadata": {"name": "node-1"}})

        found, node = await client.get_pod("team", "a"), await client.get_node("node-1")

    assert (str(found), node.name) == ("team/a", "node-1")


async def test_a_watch_asks_for_bookmarks_and_for_an_end() -> None:
    settings = ApiServerSettings(bookmark_seconds=0.05)
    async with SimApiServer(settings) as server, client_of(server.address) as client:
        listed = await client.list_pods()
        await server.create("pods", pod())
        kinds = set()
        async with aclosing(client.watch_pods(version=listed.version)) as events:
            async for event in events:
                kinds.add(type(event))
                if kinds == {Opened, Present, Bookmark}:
                    break

        [call] = await server.called("watch pods")
        assert call.query["allowWatchBookmarks"] == "true"
        assert 300 <= int(call.query["timeoutSeconds"]) <= 600


async def test_the_server_is_told_who_asks() -> None:
    async with scripted(answer(b"{}")) as api, client_of(api.address) as client:
        with pytest.raises(ApiUnavailable, match="garbled"):
            await client.get_node("node-1")

        [head] = api.requests
        assert f"User-Agent: gpushare/{gpushare_plugin.__version__}\r\n" in head
        assert "Accept-Encoding: identity\r\n" in head


async def test_connections_are_kept() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("nodes", {"metadata": {"name": "node-1"}})
        for _ in range(5):
            await client.get_node("node-1")

        assert len(client._transport._session._connector._conns) == 1  # type: ignore[union-attr]


# ------------------------------------------------------------------------------ writing


async def test_b70_a_pod_keeps_every_field_that_we_do_not_know() -> None:
    strange = pod(enableServiceLinks=False, resourceClaims=[{"name": "new-in-2030"}])
    async with SimApiServer() as server, client_of(server.address) as client:
        before = await server.create("pods", strange)
        uid = before["metadata"]["uid"]

        after = await client.patch_pod_status(
            "team", "a", StatusPatch(uid=uid, annotations={"gpushare.io/allocation": "{}"})
        )

        stored = server.get("pods", "a", namespace="team")
        assert after.annotations == {"gpushare.io/allocation": "{}"}
        assert stored["spec"] == before["spec"]
        [call] = await server.called("patch pods/status")
        assert call.content_type == "application/merge-patch+json"
        assert json.loads(call.body) == {
            "metadata": {"uid": uid, "annotations": {"gpushare.io/allocation": "{}"}}
        }


async def test_an_annotation_is_taken_away_by_none() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        value = pod()
        value["metadata"]["annotations"] = {"ours": "1", "theirs": "2"}
        uid = (await server.create("pods", value))["metadata"]["uid"]

        after = await client.patch_pod_status(
            "team", "a", StatusPatch(uid=uid, annotations={"ours": None})
        )

    assert after.annotations == {"theirs": "2"}


async def test_a_nodes_status_labels_and_annotations_are_written_in_one_call() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        status = {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}
        created = await server.create("nodes", {"metadata": {"name": "n"}, "status": status})
        count = {"aliyun.com/gpu-count": "2"}
        patch = StatusPatch(
            uid=created["metadata"]["uid"],
            labels={"gpushare.io/count": "2"},
            annotations={"gpushare.io/gpus": "{}"},
            status={"capacity": count, "allocatable": count},
        )

        node = await client.patch_node_status("n", patch)

        assert node.capacity == {"cpu": "8", "aliyun.com/gpu-count": "2"}
        assert node.labels["gpushare.io/count"] == "2"
        assert node.annotations["gpushare.io/gpus"] == "{}"
        [use] = server.state().uses["system:admin"]
        assert (use.verb, use.resource) == ("patch", "nodes/status")


async def test_another_object_of_the_same_name_is_left_alone() -> None:
    async with SimApiServer() as server, client_of(server.address) as client:
        await server.create("pods", pod())
        await server.create("nodes", {"metadata": {"name": "n"}})
        patch = StatusPatch(uid="of-its-forerunner", annotations={"a": "b"})

        with pytest.raises(ApiConflict, match=r"^patch pods/status team/a: .*422"):
            await client.patch_pod_status("team", "a", patch)
        with pytest.raises(ApiConflict, match=r"^patch nodes/status n: .*422"):
            await client.patch_node_status("n", patch)

        assert "annotations" not in server.get("pods", "a", namespace="team")["metadata"]
