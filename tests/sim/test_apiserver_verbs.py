"""The verbs in process, and the journal of calls."""

import asyncio
import json

import pytest
import yaml

from gpushare_plugin.sim.apiserver import (
    ApiServerSettings,
    ObjectExistsError,
    UnknownObjectError,
    WaitExpiredError,
)
from tests.sim.apiserver_peers import NODES, PODS, node, pod, running

WHO = "t"


async def test_an_object_is_created_as_it_is_with_its_status_and_namespace() -> None:
    value = pod("a") | {"status": {"phase": "Running"}}
    value["metadata"] |= {"namespace": "team", "uid": "uid-a"}
    async with running() as api:
        made = await api.server.create("pods", value)

        assert made["metadata"]["uid"] == "uid-a"
        assert made["status"] == {"phase": "Running"}
        assert api.server.get("namespaces", "team")["status"] == {"phase": "Active"}
        assert api.server.objects("pods", namespace="team") == (made,)
        assert api.server.objects("pods", namespace="default") == ()


async def test_what_is_handed_out_can_be_changed_without_harm() -> None:
    async with running() as api:
        made = await api.server.create("pods", pod("a"))
        made["spec"]["containers"].clear()

        assert api.server.get("pods", "a")["spec"]["containers"]


async def test_replacing_sets_everything_but_what_the_server_gave() -> None:
    async with running() as api:
        made = await api.server.create("nodes", node("n"))
        value = {"metadata": {"name": "n", "labels": {"a": "b"}}, "status": {"capacity": {}}}
        replaced = await api.server.replace("nodes", value)

        assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
        assert replaced["metadata"]["labels"] == {"a": "b"}
        assert replaced["status"] == {"capacity": {}}


async def test_a_patch_reaches_the_status_too() -> None:
    async with running() as api:
        await api.server.create("nodes", node("n"))
        change = {"status": {"capacity": {"aliyun.com/gpu-mem": "15"}}}
        patched = await api.server.patch("nodes", "n", change)

        assert patched["status"]["capacity"] == {"cpu": "8", "aliyun.com/gpu-mem": "15"}


async def test_many_objects_come_from_one_template() -> None:
    template = pod("p-{n}", nodeName="node-{n}")
    async with running() as api:
        await api.server.create_many("pods", template, 3, first=7)

        found = [
            (item["metadata"]["name"], item["spec"]["nodeName"])
            for item in api.server.objects("pods")
        ]
        assert found == [("p-7", "node-7"), ("p-8", "node-8"), ("p-9", "node-9")]
        assert len({item["metadata"]["uid"] for item in api.server.objects("pods")}) == 3
        with pytest.raises(ValueError, match="must have"):
            await api.server.create_many("pods", pod("p"), 2)


async def test_thousands_of_pods_and_nodes_are_listed_in_pages() -> None:
    fat = pod("p-{n}", nodeName="n-{n}")
    fat["metadata"]["annotations"] = {"pad": "x" * 5_500}
    async with running() as api:
        await api.server.create_many("pods", fat, 2_000)
        await api.server.create_many("nodes", node("n-{n}"), 2_000)
        page = (await api.get("/api/v1/pods", limit="500")).text

        assert api.server.state().counts["pods"] == 2_000
        assert api.server.state().counts["nodes"] == 2_000
        assert 7_500 < len(page) / 500 < 8_500
        assert json.loads(page)["metadata"]["remainingItemCount"] == 1_500


async def test_what_is_not_there_is_named() -> None:
    async with running() as api:
        with pytest.raises(UnknownObjectError, match="there is no pods a in default"):
            api.server.get("pods", "a")
        with pytest.raises(UnknownObjectError, match="there is no nodes n"):
            await api.server.delete("nodes", "n")
        with pytest.raises(UnknownObjectError, match="there is no resource cats, only pods"):
            api.server.objects("cats")


async def test_what_is_there_is_not_created_again() -> None:
    async with running() as api:
        await api.server.create("nodes", node("n"))
        with pytest.raises(ObjectExistsError, match="nodes n exists"):
            await api.server.create("nodes", node("n"))


async def test_only_a_terminating_pod_can_be_finished() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        with pytest.raises(UnknownObjectError, match="pods a was not told to end"):
            await api.server.finish_termination("a")
        told = await api.server.terminate_pod("a", grace_seconds=9)
        await api.server.finish_termination("a")

        assert told["metadata"]["deletionGracePeriodSeconds"] == 9
        assert api.server.objects("pods") == ()


async def test_waiting_for_an_object_returns_it_once_it_is_as_wanted() -> None:
    async with running() as api, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            api.server.until_object("pods", "a", lambda p: p["status"]["phase"] == "Running"),
            name="wait for a",
        )
        await asyncio.sleep(0)
        await api.server.create("pods", pod("a"))
        await api.server.set_pod_phase("a", "Running")

    assert waiting.result()["status"]["phase"] == "Running"


async def test_waiting_for_what_never_happens_says_what_is_there_instead() -> None:
    async with running() as api:
        await api.server.create("pods", pod("a"))
        with pytest.raises(WaitExpiredError, match=r"pods a never was as wanted: .*Pending"):
            await api.server.until_object("pods", "a", lambda _: False, timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match="pods a is still there"):
            await api.server.gone("pods", "a", timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match="no 1 watches of pods"):
            await api.server.watched("pods", timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match="list pods was answered 0 times, not 1"):
            await api.server.called("list pods", timeout_seconds=0.01)


# ------------------------------------------------------------------------------- journal


async def test_every_call_is_written_down() -> None:
    async with running() as api:
        await api.server.create("nodes", node("n"))
        patch = {"metadata": {"labels": {"a": "b"}}}
        await api.patch(f"{NODES}/n/status", patch)
        await api.get(PODS, limit="5")
        await api.get("/nothing")
        await api.server.called("list pods")
        first, second, third = api.server.calls()

        assert (first.method, first.path) == ("PATCH", f"{NODES}/n/status")
        assert (first.verb, first.resource, first.name) == ("patch", "nodes/status", "n")
        assert first.content_type == "application/merge-patch+json"
        assert first.json == patch
        assert first.body_bytes == len(json.dumps(patch))
        assert (first.user, first.user_agent) == ("system:admin", "raw/1")
        assert (first.status, first.ended) == (200, True)
        assert first.seconds > 0
        assert (second.query, second.namespace) == ({"limit": "5"}, "default")
        assert (third.verb, third.status) == ("", 404)
        assert api.server.calls(after=2) == (third,)


async def test_the_journal_keeps_as_much_as_was_set() -> None:
    settings = ApiServerSettings(call_log_entries=2, body_log_bytes=4)
    async with running(settings) as api:
        for name in "abc":
            await api.post(NODES, node(name))
        calls = await api.server.called("create nodes", count=2)

        assert [call.number for call in calls] == [2, 3]
        assert calls[0].body == json.dumps(node("b"))[:4]
        assert calls[0].body_bytes == len(json.dumps(node("b")))
        assert api.server.state().calls == 3


async def test_a_kubeconfig_names_the_address_and_the_token() -> None:
    async with running() as api:
        value = yaml.safe_load(api.server.kubeconfig(token=WHO))

        assert value["clusters"][0]["cluster"] == {"server": api.server.address}
        assert value["users"][0]["user"] == {"token": WHO}
        assert value["current-context"] == value["contexts"][0]["name"]
