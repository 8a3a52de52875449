"""The node's own record: cards, health, labels and count, kept true whatever happens to it."""

import json
from pathlib import Path

import pytest

from gpushare_plugin.app.node import NodeDaemon
from gpushare_plugin.errors import ConfigError
from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.kubelet import Phase, SimKubelet
from tests.node.clusters import (
    COUNT,
    NODE,
    cards_of,
    chosen,
    cluster_in,
    daemon_in,
    in_cluster,
    make_node,
)
from tests.node.event_log import EventLog
from tests.node.nodes import (
    FIRST,
    RESOURCE,
    SECOND,
    config_in,
    daemon_running,
    kubelet_settings,
    pod,
    profile_in,
)
from tests.node.waiting import eventually

GPUS = "gpushare.io/gpus"
HEALTH = "gpushare.io/health"
ILL = '{"' + FIRST + '":{"state":"unhealthy","reason":"XID 79"}}'


async def test_cards_and_labels_are_published(short_path: Path, log: EventLog) -> None:
    async with cluster_in(short_path, log) as cluster:
        node = await cluster.recorded(**{HEALTH: "{}"})

    record = json.loads(node["metadata"]["annotations"][GPUS])
    assert {key: record[key] for key in ("v", "unit_mib", "isolation")} == {
        "v": 1,
        "unit_mib": 1024,
        "isolation": "none",
    }
    assert [(gpu["index"], gpu["uuid"], gpu["units"]) for gpu in record["gpus"]] == [
        (0, FIRST, 15),
        (1, SECOND, 15),
    ]
    assert node["metadata"]["labels"] == {
        "gpushare.io/model": "Tesla-T4",
        "gpushare.io/memory-gib": "15",
        "gpushare.io/count": "2",
        "gpushare.io/unit": "GiB",
        "gpushare.io/isolation": "none",
    }


async def test_b23_the_card_count_is_published_only_once_the_node_has_memory_units(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        before = await cluster.recorded()
        units = {RESOURCE: "30"}
        await cluster.api.patch("nodes", NODE, {"status": {"capacity": units}})
        node = await cluster.api.until_object(
            "nodes", NODE, lambda node: node["status"]["allocatable"].get(COUNT) == "2"
        )

    assert COUNT not in before["status"]["capacity"]
    assert node["status"]["capacity"] == {"cpu": "8", COUNT: "2"} | units


async def test_b33_bad_news_are_published_before_the_kubelet_is_told(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.recorded()
        seen: list[int] = []

        def is_ill() -> bool:
            annotations = cluster.api.get("nodes", NODE)["metadata"]["annotations"]
            if annotations[HEALTH] == ILL:
                seen.append(cluster.node.resource.allocatable)
            return bool(seen)

        cluster.node.gpus.xid(FIRST, 79)
        await cluster.api.until(is_ill, failure=lambda: "never published")
        await cluster.node.kubelet.allocatable(RESOURCE, equals=15)
        event = await cluster.event("GpuUnhealthy")

    assert seen[0] == 30
    assert event["involvedObject"]["name"] == NODE
    assert "XID 79" in event["message"]


async def test_bad_news_reach_the_kubelet_though_they_cannot_be_published(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.recorded()
        await cluster.api.go_away()

        cluster.node.gpus.xid(FIRST, 79)
        await cluster.node.kubelet.allocatable(RESOURCE, equals=15)
        await cluster.api.come_back()

        await cluster.recorded(**{HEALTH: ILL})


async def test_a_node_object_that_is_made_anew_is_written_again(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        first = await cluster.recorded()
        await cluster.api.delete("nodes", NODE)
        await make_node(cluster.api)
        second = await cluster.recorded()

    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert first["metadata"]["annotations"] == second["metadata"]["annotations"]


async def test_a_record_that_somebody_changed_is_written_again(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        written = await cluster.recorded()
        change = {"annotations": {HEALTH: "gone"}, "labels": {"gpushare.io/count": "9"}}
        await cluster.api.patch("nodes", NODE, {"metadata": change})
        again = await cluster.recorded(**{HEALTH: "{}"})

    assert again["metadata"]["labels"] == written["metadata"]["labels"]


async def test_b40_cards_keep_their_index_over_a_restart_with_another_nvml_order(
    short_path: Path, log: EventLog
) -> None:
    lines = [f'gpu uuid={uuid} name="Tesla T4" total_mib=15360\n' for uuid in (FIRST, SECOND)]
    async with SimApiServer() as api:
        await make_node(api)
        for order in (lines, lines[::-1]):
            profile = profile_in(short_path, "".join(order))
            async with daemon_in(short_path, log, api, simulate=profile) as cluster:
                await cluster.ready()
                await cluster.recorded()
                name = f"p{order.index(lines[0])}"
                status = await cluster.run(name, 2, choice=chosen(0))
                assert cards_of(status) == ["0"]
                assert status.containers[0].env["NVIDIA_VISIBLE_DEVICES"] == FIRST
                await cluster.published(name)
                await api.delete("pods", name)


async def test_the_label_that_turns_cgpus_isolation_off_is_read_as_it_changes(
    short_path: Path, log: EventLog
) -> None:
    label = "cgpu.disable.isolation"
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        for value in ("true", "false", "true", None):
            await cluster.api.patch("nodes", NODE, {"metadata": {"labels": {label: value}}})

            async def next_one_is_told(wanted: bool = value == "true") -> bool:
                name = f"p{len(cluster.node.kubelet.state().pods)}"
                status = await cluster.run(name, 1)
                return ("CGPU_DISABLE" in status.containers[0].env) is wanted

            await eventually(next_one_is_told)


async def test_another_unit_is_refused_while_pods_hold_the_old_one(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, SimKubelet(kubelet_settings(short_path)) as kubelet:
        await make_node(api)
        ours = in_cluster(short_path, api)
        async with daemon_running(config_in(short_path, **ours)):
            await kubelet.allocatable(RESOURCE, equals=30)
            await api.until_object("nodes", NODE, lambda n: GPUS in n["metadata"]["annotations"])
            holder = await kubelet.admit(pod("holder", 4))

        with pytest.raises(ExceptionGroup) as refused:
            await NodeDaemon(config_in(short_path, memory_unit="512MiB", **ours)).run()
        await kubelet.delete_pod("uid-holder")
        async with daemon_running(config_in(short_path, memory_unit="512MiB", **ours)):
            await kubelet.allocatable(RESOURCE, equals=60)

    assert holder.phase is Phase.RUNNING
    [reason] = refused.value.exceptions
    assert isinstance(reason, ConfigError)
    assert "default/holder" in str(reason)
    assert "drain the node first" in str(reason)
