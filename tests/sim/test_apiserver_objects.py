"""Objects over HTTP: create and get, and what is refused."""

import json

import pytest

from gpushare_plugin.sim.apiserver import ApiServerSettings
from tests.sim.apiserver_peers import NODES, PODS, Api, node, pod, running

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def version(api: Api) -> int:
    return api.server.state().resource_version


async def test_a_created_object_has_what_a_server_gives_it() -> None:
    async with running() as api:
        reply = await api.post(PODS, pod("a"))

        assert reply.status == 201
        assert (reply.json["kind"], reply.json["apiVersion"]) == ("Pod", "v1")
        metadata = reply.json["metadata"]
        assert len(metadata["uid"]) == 36
        assert metadata["namespace"] == "default"
        assert metadata["creationTimestamp"].endswith("Z")
        assert metadata["generation"] == 1
        assert metadata["resourceVersion"] == str(await version(api))
        assert reply.json["status"]["phase"] == "Pending"
        assert (await api.get(f"{PODS}/a")).json == reply.json


async def test_what_only_a_server_gives_is_not_taken_from_a_client() -> None:
    value = pod("a") | {"status": {"phase": "Running"}}
    value["metadata"] |= {"uid": "mine", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    async with running() as api:
        reply = await api.post(PODS, value)

        assert reply.json["metadata"]["uid"] != "mine"
        assert "deletionTimestamp" not in reply.json["metadata"]
        assert reply.json["status"] == {"phase": "Pending"}


async def test_a_node_is_created_with_its_status_as_a_kubelet_does() -> None:
    async with running() as api:
        reply = await api.post(NODES, node("n"))

        assert reply.json["status"]["capacity"] == {"cpu": "8"}


async def test_a_generated_name_begins_as_asked() -> None:
    async with running() as api:
        value = pod("a") | {"metadata": {"generateName": "web-"}}
        names = {(await api.post(PODS, value)).json["metadata"]["name"] for _ in range(2)}

        assert len(names) == 2
        assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_answers_carry_managed_fields_of_the_size_that_was_set() -> None:
    async with running(ApiServerSettings(managed_fields_bytes=3000)) as api:
        await api.server.create("pods", pod("a"))
        one = (await api.get(f"{PODS}/a")).json
        (listed,) = (await api.get(PODS)).json["items"]

        size = len(json.dumps(one["metadata"]["managedFields"], separators=(",", ":")))
        assert 2900 < size <= 3000
        assert listed["metadata"] == one["metadata"]
        assert "managedFields" not in api.server.get("pods", "a")["metadata"]


async def test_managed_fields_sent_back_are_not_kept_twice() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        whole = (await api.get(f"{PODS}/a")).json
        reply = await api.put(f"{PODS}/a", whole)

        assert reply.json == whole


async def test_without_bulk_there_are_no_managed_fields() -> None:
    async with running(ApiServerSettings(managed_fields_bytes=0)) as api:
        reply = await api.post(PODS, pod("a"))

        assert "managedFields" not in reply.json["metadata"]


async def test_every_write_has_the_next_number_of_one_counter() -> None:
    async with running() as api:
        before = await version(api)
        replies = [
            await api.post(NODES, node("n")),
            await api.post(PODS, pod("a")),
            await api.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}}),
        ]

        versions = [int(reply.json["metadata"]["resourceVersion"]) for reply in replies]
        assert versions == [before + 1, before + 2, before + 3]


async def test_dry_runs_answer_and_change_nothing() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        before = api.server.get("pods", "a")
        made = await api.call("POST", PODS, pod("b"), query={"dryRun": "All"})
        gone = await api.delete(f"{PODS}/a", dryRun="All")

        assert (made.status, gone.status) == (201, 200)
        assert api.server.objects("pods") == (before,)


# --------------------------------------------------------------------------- refusals


async def test_an_object_that_is_not_there_is_not_found() -> None:
    async with running() as api:
        pods, leases = await api.get(f"{PODS}/x"), await api.get(f"{LEASES}/x")

        assert pods.refusal == (404, "NotFound", 'pods "x" not found')
        assert leases.refusal == (404, "NotFound", 'leases.coordination.k8s.io "x" not found')
        assert leases.json["details"] == {
            "name": "x",
            "group": "coordination.k8s.io",
            "kind": "leases",
        }


async def test_a_name_is_given_once() -> None:
    async with running() as api:
        await api.post(PODS, pod("a"))
        reply = await api.post(PODS, pod("a"))

        assert reply.refusal == (409, "AlreadyExists", 'pods "a" already exists')


async def test_nothing_is_created_in_a_namespace_that_is_not_there() -> None:
    async with running() as api:
        path = "/api/v1/namespaces/team/pods"
        early = await api.post(path, pod("a"))
        await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
        late = await api.post(path, pod("a"))

        assert early.refusal == (404, "NotFound", 'namespaces "team" not found')
        assert late.json["metadata"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/api/v1/secrets", 404, "NotFound"),
        ("GET", "/api/v2/pods", 404, "NotFound"),
        ("GET", "/nothing", 404, "NotFound"),
        ("GET", f"{PODS}/a/log", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound"),
        ("POST", f"{PODS}/a", 405, "MethodNotAllowed"),
        ("DELETE", PODS, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", 405, "MethodNotAllowed"),
        ("GET", f"{PODS}/a/binding", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/bindings", 405, "MethodNotAllowed"),
    ],
)
async def test_what_the_server_does_not_have_is_refused(
    method: str, path: str, status: int, reason: str
) -> None:
    async with running() as api:
        reply = await api.call(method, path)

        assert reply.refusal[:2] == (status, reason)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "cannot unmarshal list"),
        ({"kind": "Node", **pod("a")}, "the kind in the data (Node) does not match"),
        ({"apiVersion": "v2", **pod("a")}, "the apiVersion in the data (v2) does not match"),
        (
            {"metadata": {"name": "a", "namespace": "other"}},
            "the namespace of the provided object does not match",
        ),
        (
            {"metadata": {"name": "a", "annotations": {"units": 4}}},
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations",
        ),
    ],
)
async def test_a_body_that_makes_no_sense_is_a_bad_request(body: object, text: str) -> None:
    async with running() as api:
        status, reason, message = (await api.post(PODS, body)).refusal

        assert (status, reason) == (400, "BadRequest")
        assert text in message


async def test_a_body_in_another_format_is_refused() -> None:
    async with running() as api:
        reply = await api.call("POST", PODS, "x: y", kind="text/plain")

        assert reply.refusal[:2] == (415, "UnsupportedMediaType")


async def test_a_client_that_takes_no_json_is_refused() -> None:
    accept = "application/vnd.kubernetes.protobuf"
    async with running() as api:
        alone = await api.call("GET", PODS, headers={"Accept": accept})
        both = await api.call("GET", PODS, headers={"Accept": f"{accept},application/json"})

        assert alone.refusal[:2] == (406, "NotAcceptable")
        assert both.status == 200


async def test_a_body_of_more_than_three_mebibytes_is_refused() -> None:
    async with running() as api:
        reply = await api.post(PODS, " " * (3 * 1024 * 1024 + 1))

        assert reply.refusal == (
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        )


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "A_b"}, "metadata.name"),
        ({"name": "a", "labels": {"x": "Tesla T4"}}, "metadata.labels"),
        ({"name": "a", "labels": {"x": "y" * 64}}, "metadata.labels"),
        ({"name": "a", "labels": {"/x": "y"}}, "metadata.labels"),
        ({"name": "a", "annotations": {"a b": "y"}}, "metadata.annotations"),
        ({"name": "a", "annotations": {"x": "y" * 262_144}}, "metadata.annotations"),
    ],
)
async def test_metadata_that_breaks_a_rule_is_invalid(
    metadata: dict[str, object], field: str
) -> None:
    async with running() as api:
        reply = await api.post(PODS, {"metadata": metadata})

        assert reply.refusal[:2] == (422, "Invalid")
        assert reply.json["details"]["causes"][0]["field"] == field


# ---------------------------------------------------------------------------- other


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_the_server_says_that_it_is_well(path: str) -> None:
    async with running() as api:
        reply = await api.get(path)

        assert (reply.status, reply.text) == (200, "ok")


async def test_the_server_tells_its_version() -> None:
    async with running() as api:
        reply = await api.get("/version")

        assert (reply.json["major"], reply.json["minor"]) == ("1", "36")


@pytest.mark.parametrize("zipped", [True, False])
async def test_long_answers_are_compressed_for_who_takes_it(zipped: bool) -> None:
    async with running(ApiServerSettings(gzip_from_bytes=500)) as api:
        await api.server.create("pods", pod("a"))
        headers = {"Accept-Encoding": "gzip" if zipped else "identity"}
        reply = await api.call("GET", PODS, headers=headers)
        short = await api.call("GET", "/healthz", headers=headers)

        assert (reply.headers.get("Content-Encoding") == "gzip") is zipped
        assert reply.names == ["a"]
        assert "Content-Encoding" not in short.headers


async def test_config_maps_and_leases_are_objects_like_any_other() -> None:
    async with running() as api:
        maps = "/api/v1/namespaces/kube-system/configmaps"
        await api.post(maps, {"metadata": {"name": "c"}, "data": {"gpus": "0,2"}})
        lease = (await api.post(LEASES, {"metadata": {"name": "l"}, "spec": {}})).json
        lease["spec"]["holderIdentity"] = "me"
        taken = await api.put(f"{LEASES}/l", lease)
        beaten = await api.put(f"{LEASES}/l", lease)

        assert (await api.get(f"{maps}/c")).json["data"] == {"gpus": "0,2"}
        assert taken.json["spec"] == {"holderIdentity": "me"}
        assert beaten.refusal[:2] == (409, "Conflict")
