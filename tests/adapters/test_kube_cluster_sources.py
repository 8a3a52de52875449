"""The pictures that the extender keeps: all nodes, the pods that ask, the unhealthy lists."""

from typing import Any

import pytest

from gpushare_plugin.adapters.kube.reading import node_reader, pod_reader
from gpushare_plugin.ports.cluster import Gone, Upserted
from gpushare_plugin.ports.scheduling import UnhealthyList
from gpushare_plugin.sim.apiserver import SimApiServer
from tests.adapters.kube_servers import MEMORY, following, scheduling_client_of

CORES = "aliyun.com/gpu-core.percentage"
ASKING = pod_reader([MEMORY, CORES], annotation_prefixes=("gpushare.io/",), asking_only=True)


def pod(name: str, resource: str = MEMORY, quantity: str = "2", **spec: Any) -> dict[str, Any]:
    limits = {resource: quantity}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return {
        "metadata": {"name": name, "namespace": "team", "annotations": {"gpushare.io/a": "1"}},
        "spec": {"containers": [{"name": "other", "image": "i"}, container], **spec},
    }


# ------------------------------------------------------------------------------- pods


@pytest.mark.parametrize(
    ("resource", "quantity", "held"),
    [
        (MEMORY, "2", True),
        (CORES, "50", True),
        (MEMORY, "0", False),
        ("nvidia.com/gpu", "1", False),
        (MEMORY, "much", True),
    ],
)
async def test_a_pod_is_held_if_it_asks_or_may(resource: str, quantity: str, *, held: bool) -> None:
    async with SimApiServer() as server, scheduling_client_of(server.address) as (_, sources):
        await server.create("pods", pod("listed", resource, quantity))
        async with following(sources.live_pods(ASKING)) as seen:
            await seen.informer.synced.wait()
            await server.watched("pods")
            await server.create("pods", pod("watched", resource, quantity))
            await server.create("pods", pod("z"))
            await seen.until(lambda: "team/z" in seen.names)

            wanted = ["team/listed", "team/watched"] if held else []
            assert seen.names == [*wanted, "team/z"]
            assert len(seen.informer.items) == len(seen.names)


async def test_pods_that_do_not_ask_still_move_the_watch_on() -> None:
    async with (
        SimApiServer() as server,
        scheduling_client_of(server.address) as (_, sources),
        following(sources.live_pods(ASKING)) as seen,
    ):
        await server.watched("pods")
        await server.create("pods", pod("a"))
        await server.create_many("pods", pod("other-{n}", "cpu"), 3)
        await seen.until(lambda: seen.names == ["team/a"])
        passed = server.state().resource_version
        await server.cut_watches(cleanly=True)
        *_, again = await server.called("watch pods", count=2)

        assert int(again.query["resourceVersion"]) == passed
        assert len(await server.called("list pods")) == 1


async def test_pods_that_ended_are_not_asked_for_and_go_when_they_end() -> None:
    async with SimApiServer() as server, scheduling_client_of(server.address) as (_, sources):
        await server.create("pods", {**pod("ended"), "status": {"phase": "Succeeded"}})
        await server.create("pods", pod("waits"))
        await server.create("pods", pod("runs", nodeName="node-1"))
        async with following(sources.live_pods(ASKING)) as seen:
            await seen.informer.synced.wait()
            assert seen.names == ["team/runs", "team/waits"]

            await server.watched("pods")
            await server.set_pod_phase("runs", "Failed", namespace="team")
            await seen.until(lambda: seen.names == ["team/waits"])

        call, *_ = await server.called("list pods")
        assert call.query["fieldSelector"] == "status.phase!=Failed,status.phase!=Succeeded"
        assert "resourceVersion" not in call.query


# ------------------------------------------------------------------------------ nodes


async def test_of_a_node_only_what_is_asked_for_is_held() -> None:
    node = {
        "metadata": {
            "name": "node-1",
            "labels": {"zone": "a"},
            "annotations": {"gpushare.io/gpus": "[]", "other": "x"},
        },
        "status": {
            "capacity": {MEMORY: "16", "cpu": "8"},
            "allocatable": {MEMORY: "0", "cpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    reader = node_reader([MEMORY], annotation_prefixes=("gpushare.io/",), labels=False)
    async with SimApiServer() as server, scheduling_client_of(server.address) as (_, sources):
        await server.create("nodes", node)
        await server.create("nodes", {"metadata": {"name": "node-2"}})
        async with following(sources.nodes(reader)) as seen:
            await seen.informer.synced.wait()
            first, second = sorted(seen.informer.items.values(), key=str)
            await server.watched("nodes")
            await server.delete("nodes", "node-2")
            await seen.until(lambda: seen.names == ["node-1"])

    assert (first.labels, first.annotations) == ({}, {"gpushare.io/gpus": "[]"})
    assert (first.capacity, first.allocatable) == ({MEMORY: "16"}, {MEMORY: "0"})
    assert first.ready
    assert (second.capacity, second.annotations) == ({}, {})


# --------------------------------------------------------------------- unhealthy lists


def config_map(name: str, *, namespace: str = "kube-system", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_unhealthy_lists_come_change_and_go() -> None:
    async with SimApiServer() as server, scheduling_client_of(server.address) as (_, sources):
        await server.create("configmaps", config_map("unhealthy-gpu-node-1", gpus="0,2", more="x"))
        async with following(sources.unhealthy_lists("kube-system")) as seen:
            await seen.informer.synced.wait()
            await server.watched("configmaps")
            await server.create("configmaps", config_map("unhealthy-gpu-node-2"))
            change = {"data": {"gpus": "1"}}
            await server.patch(
                "configmaps", "unhealthy-gpu-node-2", change, namespace="kube-system"
            )
            await server.delete("configmaps", "unhealthy-gpu-node-1", namespace="kube-system")
            await seen.until(lambda: len(seen.changes) == 4)

            assert seen.changes == [
                Upserted(UnhealthyList(node_name="node-1", text="0,2")),
                Upserted(UnhealthyList(node_name="node-2", text="")),
                Upserted(UnhealthyList(node_name="node-2", text="1")),
                Gone(UnhealthyList(node_name="node-1", text="0,2")),
            ]


async def test_other_config_maps_are_not_held() -> None:
    async with SimApiServer() as server, scheduling_client_of(server.address) as (_, sources):
        await server.create("configmaps", config_map("coredns", gpus="0"))
        await server.create("configmaps", config_map("unhealthy-gpu-"))
        await server.create("configmaps", config_map("unhealthy-gpu-n", namespace="x", gpus="1"))
        async with following(sources.unhealthy_lists("kube-system")) as seen:
            await seen.informer.synced.wait()
            await server.watched("configmaps")
            await server.create("configmaps", config_map("extra", gpus="0"))
            await server.create("configmaps", config_map("unhealthy-gpu-a", gpus="3"))
            await seen.until(lambda: len(seen.changes) == 1)

            assert seen.changes == [Upserted(UnhealthyList(node_name="a", text="3"))]
        assert {call.namespace for call in server.calls()} == {"kube-system"}
