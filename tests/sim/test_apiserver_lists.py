"""Lists: selectors, pages, versions."""

import base64
import json
from typing import Any

import pytest

from tests.sim.apiserver_peers import NODES, PODS, Api, labelled, node, pod, running

ALL_PODS = "/api/v1/pods"


async def pages(api: Api, path: str, **query: str) -> list[Any]:
    """Every page of one list."""
    found = [(await api.get(path, **query)).json]
    while token := found[-1]["metadata"].get("continue"):
        found.append((await api.get(path, **query | {"continue": token})).json)
    return found


def names(page: Any) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


async def test_a_list_is_sorted_and_has_the_version_of_its_moment() -> None:
    async with running() as api:
        await api.server.create("pods", pod("b"))
        await api.server.create("pods", pod("a"))
        reply = await api.get(PODS)

        assert (reply.json["kind"], reply.json["apiVersion"]) == ("PodList", "v1")
        assert reply.names == ["a", "b"]
        assert reply.json["metadata"] == {
            "resourceVersion": str(api.server.state().resource_version)
        }


async def test_items_do_not_name_their_kind() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        (item,) = (await api.get(PODS)).json["items"]

        assert not {"kind", "apiVersion"} & item.keys()


async def test_a_list_without_objects_has_no_items() -> None:
    async with running() as api:
        assert (await api.get(NODES)).json["items"] == []


async def test_a_namespaces_list_has_that_namespace_alone() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        other = pod("b")
        other["metadata"]["namespace"] = "team"
        await api.server.create("pods", other)

        assert (await api.get(PODS)).names == ["a"]
        assert (await api.get("/api/v1/namespaces/team/pods")).names == ["b"]
        assert (await api.get(ALL_PODS)).names == ["a", "b"]
        assert (await api.get("/api/v1/namespaces")).names == [
            "default",
            "kube-node-lease",
            "kube-public",
            "kube-system",
            "team",
        ]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=x", "a"),
        ("app==x", "a"),
        ("app = x", "a"),
        ("app!=x", "bc"),
        ("app", "ab"),
        ("!app", "c"),
        ("app in (x, y)", "ab"),
        ("app in (x),tier", ""),
        ("app notin (x)", "bc"),
        ("app,tier=1", "b"),
        ("app in (x,z),app", "a"),
        ("", "abc"),
    ],
)
async def test_label_selectors(selector: str, found: str) -> None:
    async with running() as api:
        await api.server.create("pods", labelled(pod("a"), app="x"))
        await api.server.create("pods", labelled(pod("b"), app="y", tier="1"))
        await api.server.create("pods", pod("c"))
        reply = await api.get(PODS, labelSelector=selector)

        assert reply.names == list(found)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=n", "ab"),
        ("spec.nodeName==n,status.phase=Running", "b"),
        ("status.phase=Pending,spec.nodeName=n", "a"),
        ("spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded", "ab"),
        ("spec.nodeName=", "c"),
        ("spec.nodeName!=", "ab"),
        ("spec.schedulerName=ours", "c"),
        ("spec.schedulerName=default-scheduler", "ab"),
        ("metadata.name=b", "b"),
        ("metadata.namespace=default,metadata.name!=b", "ac"),
        ("metadata.namespace=other", ""),
        ("", "abc"),
    ],
)
async def test_field_selectors(selector: str, found: str) -> None:
    async with running() as api:
        await api.server.create("pods", pod("a", nodeName="n"))
        await api.server.create("pods", pod("b", nodeName="n") | {"status": {"phase": "Running"}})
        await api.server.create("pods", pod("c", schedulerName="ours"))
        reply = await api.get(ALL_PODS, fieldSelector=selector)

        assert reply.names == list(found)


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        (PODS, {"fieldSelector": "spec.hostname=x"}, "field label not supported: spec.hostname"),
        (NODES, {"fieldSelector": "spec.nodeName=x"}, "field label not supported: spec.nodeName"),
        (PODS, {"fieldSelector": "metadata.name"}, "can't understand 'metadata.name'"),
        (PODS, {"labelSelector": "a in x"}, 'unable to parse requirement: found "a in x"'),
        (PODS, {"labelSelector": "a,"}, "unable to parse requirement"),
        (PODS, {"limit": "many"}, "must be a whole number"),
        (PODS, {"continue": "?"}, "continue key is not valid"),
        (PODS, {"continue": "e30"}, "continue key is not valid"),
        (PODS, {"continue": "e30", "resourceVersion": "5"}, "not allowed when using continue"),
    ],
)
async def test_a_query_that_makes_no_sense_is_a_bad_request(
    path: str, query: dict[str, str], text: str
) -> None:
    async with running() as api:
        status, reason, message = (await api.get(path, **query)).refusal

        assert (status, reason) == (400, "BadRequest")
        assert text in message


# ------------------------------------------------------------------------------ pages


async def test_pages_follow_one_another_and_tell_what_remains() -> None:
    async with running() as api:
        await api.server.create_many("pods", pod("p-{n}"), 5)
        found = await pages(api, PODS, limit="2")

        assert [names(page) for page in found] == [["p-0", "p-1"], ["p-2", "p-3"], ["p-4"]]
        remaining = [page["metadata"].get("remainingItemCount") for page in found]
        assert remaining == [3, 1, None]


async def test_the_last_page_has_no_token_even_when_it_is_full() -> None:
    async with running() as api:
        await api.server.create_many("pods", pod("p-{n}"), 4)
        found = await pages(api, PODS, limit="2")

        assert [len(page["items"]) for page in found] == [2, 2]


async def test_pages_with_a_selector_tell_nothing_of_what_remains() -> None:
    async with running() as api:
        await api.server.create_many("pods", labelled(pod("p-{n}"), odd="no"), 3)
        await api.server.create_many("pods", labelled(pod("q-{n}"), odd="yes"), 3)
        found = await pages(api, PODS, limit="2", labelSelector="odd=no")

        assert [names(page) for page in found] == [["p-0", "p-1"], ["p-2"]]
        assert not any("remainingItemCount" in page["metadata"] for page in found)


async def test_later_pages_show_the_moment_of_the_first() -> None:
    async with running() as api:
        await api.server.create_many("pods", pod("p-{n}"), 4)
        first = (await api.get(PODS, limit="2")).json
        await api.server.delete("pods", "p-2")
        await api.server.create("pods", pod("p-9"))
        await api.server.set_pod_phase("p-3", "Running")
        second = (
            await api.get(PODS, limit="2", **{"continue": first["metadata"]["continue"]})
        ).json

        assert names(second) == ["p-2", "p-3"]
        assert second["items"][1]["status"]["phase"] == "Pending"
        versions = {page["metadata"]["resourceVersion"] for page in (first, second)}
        assert len(versions) == 1


async def test_pages_of_a_namespace_count_that_namespace_alone() -> None:
    async with running() as api:
        for namespace in ("a", "b"):
            template = pod("p-{n}")
            template["metadata"]["namespace"] = namespace
            await api.server.create_many("pods", template, 3)
        found = await pages(api, "/api/v1/namespaces/a/pods", limit="2")
        everything = await pages(api, ALL_PODS, limit="4")

        assert [len(page["items"]) for page in found] == [2, 1]
        assert found[0]["metadata"]["remainingItemCount"] == 1
        assert [len(page["items"]) for page in everything] == [4, 2]


async def test_pages_of_objects_without_a_namespace() -> None:
    async with running() as api:
        await api.server.create_many("nodes", node("n-{n}"), 3)
        found = await pages(api, NODES, limit="1")

        assert [names(page) for page in found] == [["n-0"], ["n-1"], ["n-2"]]


async def test_a_token_of_before_a_compaction_is_expired_and_comes_with_another() -> None:
    async with running() as api:
        await api.server.create_many("pods", pod("p-{n}"), 3)
        first = (await api.get(PODS, limit="2")).json
        await api.server.create("pods", pod("p-9"))
        await api.server.compact()
        expired = await api.get(PODS, limit="2", **{"continue": first["metadata"]["continue"]})
        other = expired.json["metadata"]["continue"]
        rest = await api.get(PODS, limit="2", **{"continue": other})

        assert expired.refusal[:2] == (410, "Expired")
        assert expired.refusal[2].startswith("The provided continue parameter is too old")
        assert rest.names == ["p-2", "p-9"]
        assert rest.json["metadata"]["resourceVersion"] == str(api.server.state().resource_version)


async def test_a_token_of_a_moment_that_nobody_kept_is_expired() -> None:
    async with running() as api:
        place = {"v": "meta.k8s.io/v1", "rv": 1, "start": "default/a\0"}
        token = base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
        reply = await api.get(PODS, **{"continue": token})

        assert reply.refusal[:2] == (410, "Expired")


async def test_a_list_of_any_version_comes_in_one_page_whatever_the_limit() -> None:
    async with running() as api:
        await api.server.create_many("pods", pod("p-{n}"), 3)
        reply = await api.get(PODS, limit="2", resourceVersion="0")

        assert len(reply.names) == 3
        assert "continue" not in reply.json["metadata"]


async def test_a_list_of_a_version_that_is_not_reached_yet_times_out() -> None:
    async with running() as api:
        now = api.server.state().resource_version
        reply = await api.get(PODS, resourceVersion=str(now + 9))

        assert reply.refusal == (
            504,
            "Timeout",
            f"Too large resource version: {now + 9}, current: {now}",
        )
        assert reply.headers["Retry-After"] == "1"


async def test_a_list_of_exactly_an_old_version_is_expired() -> None:
    async with running() as api:
        now = str(api.server.state().resource_version)
        exact = {"resourceVersionMatch": "Exact", "resourceVersion": now}
        present = await api.get(PODS, **exact)
        await api.server.create("pods", pod("a"))
        old = await api.get(PODS, **exact)

        assert present.status == 200
        assert old.refusal[:2] == (410, "Expired")


async def test_a_list_of_at_least_an_old_version_is_of_now() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        reply = await api.get(PODS, resourceVersion="1")

        assert reply.names == ["a"]
