"""Updates and deletes over HTTP, with preconditions and graces."""

import asyncio

import pytest

from gpushare_plugin.sim.apiserver import ApiServerSettings
from tests.sim.apiserver_peers import NODES, PODS, Api, node, pod, running

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def version(api: Api) -> int:
    return api.server.state().resource_version


async def test_an_update_of_an_older_version_is_a_conflict() -> None:
    async with running() as api:
        before = (await api.post(NODES, node("n"))).json
        await api.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}})
        reply = await api.put(f"{NODES}/n", before)

        assert reply.refusal == (
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on nodes "n": the object has been modified; '
                "please apply your changes to the latest version and try again"
            ),
        )


async def test_an_update_replaces_all_but_the_status() -> None:
    async with running() as api:
        value = (await api.post(NODES, node("n"))).json
        value["metadata"]["labels"] = {"a": "b"}
        value["spec"] = {"unschedulable": True}
        value["status"] = {}
        reply = await api.put(f"{NODES}/n", value)

        assert reply.json["metadata"]["labels"] == {"a": "b"}
        assert reply.json["metadata"]["generation"] == 1
        assert reply.json["spec"] == {"unschedulable": True}
        assert reply.json["status"] == {"capacity": {"cpu": "8"}}


async def test_an_update_without_a_version_is_taken_but_for_leases() -> None:
    async with running() as api:
        await api.post(NODES, node("n"))
        await api.post(LEASES, {"metadata": {"name": "l"}, "spec": {}})
        of_node = await api.put(f"{NODES}/n", {"metadata": {"name": "n"}})
        of_lease = await api.put(f"{LEASES}/l", {"metadata": {"name": "l"}})

        assert of_node.status == 200
        assert of_lease.refusal[:2] == (422, "Invalid")
        assert "must be specified for an update" in of_lease.refusal[2]


async def test_an_update_for_another_uid_is_a_conflict() -> None:
    async with running() as api:
        value = (await api.post(NODES, node("n"))).json
        value["metadata"]["uid"] = "other"
        reply = await api.put(f"{NODES}/n", value)

        assert reply.refusal[:2] == (409, "Conflict")
        assert "Precondition failed: UID in precondition: other" in reply.refusal[2]


async def test_an_update_that_changes_nothing_makes_no_new_version() -> None:
    async with running() as api:
        value = (await api.post(NODES, node("n"))).json
        before = await version(api)
        reply = await api.put(f"{NODES}/n", value)

        assert reply.json == value
        assert await version(api) == before


async def test_an_update_under_another_name_is_a_bad_request() -> None:
    async with running() as api:
        await api.post(NODES, node("n"))
        reply = await api.put(f"{NODES}/n", node("m"))

        assert reply.refusal == (
            400,
            "BadRequest",
            "the name of the object (m) does not match the name on the URL (n)",
        )


async def test_a_pods_node_is_not_set_by_an_update() -> None:
    async with running() as api:
        value = (await api.post(PODS, pod("a"))).json
        value["spec"]["nodeName"] = "n"
        reply = await api.put(f"{PODS}/a", value)

        assert reply.refusal[:2] == (422, "Invalid")
        assert "pod updates may not change fields other than" in reply.refusal[2]


async def test_a_containers_image_may_be_changed_and_raises_the_generation() -> None:
    async with running() as api:
        value = (await api.post(PODS, pod("a"))).json
        value["spec"]["containers"][0]["image"] = "app:2"
        reply = await api.put(f"{PODS}/a", value)

        assert reply.status == 200
        assert reply.json["metadata"]["generation"] == 2


# ----------------------------------------------------------------------------- delete


async def test_a_pod_that_runs_is_told_to_end_and_goes_after_its_grace() -> None:
    async with running(ApiServerSettings(grace_scale=0.3)) as api:
        await api.server.create("pods", pod("a", nodeName="n"))
        reply = await api.delete(f"{PODS}/a", gracePeriodSeconds="1")
        there = await api.get(f"{PODS}/a")
        await api.server.gone("pods", "a")

        metadata = reply.json["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == 1
        assert metadata["deletionTimestamp"] >= metadata["creationTimestamp"]
        assert there.json == reply.json


async def test_a_pod_goes_when_its_termination_is_finished() -> None:
    settings = ApiServerSettings(grace_enforced=False)
    async with running(settings) as api:
        await api.server.create("pods", pod("a", nodeName="n"))
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 3})
        await api.server.finish_termination("a")

        assert (await api.get(f"{PODS}/a")).status == 404


async def test_a_grace_can_be_made_shorter_but_not_longer() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a", nodeName="n"))
        default = await api.delete(f"{PODS}/a")
        longer = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 60})
        shorter = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 5})
        at_once = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})

        seconds = [
            reply.json["metadata"]["deletionGracePeriodSeconds"]
            for reply in (default, longer, shorter)
        ]
        assert seconds == [30, 30, 5]
        assert at_once.json["metadata"]["name"] == "a"
        assert api.server.objects("pods") == ()


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_a_pod_that_does_not_run_is_gone_at_once(phase: str) -> None:
    async with running() as api:
        node_name = "" if phase == "Pending" else "n"
        value = pod("a", nodeName=node_name) | {"status": {"phase": phase}}
        await api.server.create("pods", value)
        reply = await api.delete(f"{PODS}/a")

        assert reply.status == 200
        assert (await api.get(f"{PODS}/a")).status == 404


async def test_anything_else_is_gone_at_once_and_answered_with_a_status() -> None:
    async with running() as api:
        uid = (await api.post(NODES, node("n"))).json["metadata"]["uid"]
        reply = await api.delete(f"{NODES}/n")

        assert reply.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "n", "kind": "nodes", "uid": uid},
        }
        assert (await api.get(f"{NODES}/n")).status == 404


@pytest.mark.parametrize(
    ("preconditions", "what"),
    [({"uid": "other"}, "UID"), ({"resourceVersion": "1"}, "ResourceVersion")],
)
async def test_a_delete_whose_precondition_fails_is_a_conflict(
    preconditions: dict[str, str], what: str
) -> None:
    async with running() as api:
        await api.server.create("nodes", node("n"))
        reply = await api.delete(f"{NODES}/n", {"preconditions": preconditions})

        assert reply.refusal[:2] == (409, "Conflict")
        assert f"Precondition failed: {what} in precondition" in reply.refusal[2]
        assert api.server.get("nodes", "n")


async def test_a_delete_whose_preconditions_hold_is_done() -> None:
    async with running() as api:
        metadata = (await api.post(NODES, node("n"))).json["metadata"]
        preconditions = {key: metadata[key] for key in ("uid", "resourceVersion")}
        reply = await api.delete(f"{NODES}/n", {"preconditions": preconditions})

        assert reply.status == 200


async def test_a_pod_made_again_does_not_fall_to_the_grace_of_the_first() -> None:
    async with running(ApiServerSettings(grace_scale=0.02)) as api:
        await api.server.create("pods", pod("a", nodeName="n"))
        await api.server.terminate_pod("a", grace_seconds=1)
        await api.server.delete("pods", "a")
        await api.server.create("pods", pod("a", nodeName="n"))
        await asyncio.sleep(0.04)

        assert api.server.get("pods", "a")


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({"leaseDurationSeconds": 0}, 422, "must be greater than 0"),
        ({"leaseTransitions": -1}, 422, "must be greater than or equal to 0"),
        ({"renewTime": "2026-01-31T08:00:00Z"}, 400, "cannot be handled as a Lease"),
        ({"acquireTime": "2026-01-31T08:00:00.123Z"}, 400, "cannot be handled as a Lease"),
    ],
)
async def test_a_lease_that_breaks_its_rules_is_refused(
    spec: dict[str, object], status: int, told: str
) -> None:
    async with running() as api:
        reply = await api.post(LEASES, {"metadata": {"name": "l"}, "spec": spec})

        assert reply.refusal[0] == status
        assert told in reply.refusal[2]


async def test_a_lease_may_be_given_up() -> None:
    spec = {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": "2026-01-31T08:00:00.000000Z",
        "leaseTransitions": 0,
    }
    async with running() as api:
        reply = await api.post(LEASES, {"metadata": {"name": "l"}, "spec": spec})

        assert reply.status == 201
