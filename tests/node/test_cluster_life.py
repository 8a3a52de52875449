"""Pods end, containers and kubelets restart, nodes are taken over: the record stays true."""

import asyncio
import json
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.kubelet import Phase, SimKubelet
from tests.node.clusters import (
    ALLOCATION,
    INDEX,
    Cluster,
    bind,
    cards_of,
    chosen,
    cluster_in,
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
)


async def test_b64_restarts_of_a_container_and_of_the_kubelet_change_nothing_in_the_record(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        pod = await cluster.bind("a", 4, 2, choice=chosen(1))
        await cluster.admit(pod)
        before = await cluster.published("a", ALIYUN_COM_GPU_MEM_ASSIGNED="true")
        calls = cluster.api.state().calls

        restarted = await cluster.node.kubelet.restart_container(pod.uid, "c0")
        await cluster.node.kubelet.restart()
        await cluster.ready(registrations=2)
        await cluster.run("b", 1, choice=chosen(0))
        await cluster.published("b")
        after = cluster.api.get("pods", "a")["metadata"]["annotations"]
        writes = [call.name for call in cluster.api.calls(after=calls) if call.verb == "patch"]

    assert restarted.env[INDEX] == "1"
    assert after == before
    assert "a" not in writes


async def test_a_terminating_pod_holds_its_card_and_is_published_all_the_same(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.api.go_away()
        pod = await cluster.bind("ending", 10, choice=chosen(1))
        await cluster.node.kubelet.admit(pod)
        await cluster.api.terminate_pod("ending", grace_seconds=3600)
        await cluster.api.come_back()

        allocation = await cluster.allocation("ending")

    assert [sum(units.values()) for units in allocation.values()] == [10]


async def test_a_pod_that_has_ended_gives_its_units_back(short_path: Path, log: EventLog) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        pod = await cluster.bind("ended", 15, choice=chosen(1))
        await cluster.admit(pod)
        await cluster.published("ended")
        await cluster.node.kubelet.finish_pod(pod.uid, Phase.SUCCEEDED)
        await cluster.api.set_pod_phase("ended", "Succeeded")
        next_one = await cluster.run("next", 15, choice=chosen(1))

    assert cards_of(next_one) == ["1"]


async def test_a_record_that_somebody_took_off_a_pod_is_written_again(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.run("a", 4, choice=chosen(1))
        before = await cluster.published("a", ALIYUN_COM_GPU_MEM_ASSIGNED="true")
        change = {"annotations": {ALLOCATION: None, INDEX: "0"}}
        await cluster.api.patch("pods", "a", {"metadata": change})
        after = await cluster.published("a", **{INDEX: "1"})

    assert after == before


async def test_a_pod_made_anew_under_its_name_gets_its_own_card_and_not_the_old_ones_record(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        old = await cluster.bind("web-0", 4, choice=chosen(0))
        await cluster.admit(old)
        await cluster.published("web-0")
        await cluster.node.kubelet.delete_pod(old.uid)
        await cluster.api.delete("pods", "web-0")

        new = await cluster.bind("web-0", 4, choice=chosen(1))
        # Longer than the daemon needs to write what it holds for the new pod's record.
        await asyncio.sleep(0.1)
        between = cluster.api.get("pods", "web-0")["metadata"]["annotations"]
        status = await cluster.admit(new)
        annotations = await cluster.published("web-0")

    assert between == chosen(1)
    assert cards_of(status) == ["1"]
    assert json.loads(annotations[ALLOCATION]) == {"c0": {SECOND: 4}}


async def test_a_pod_made_anew_while_the_kubelet_lists_the_old_one_keeps_the_choice_and_gets_it(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        old = await cluster.bind("web-0", 4, choice=chosen(0))
        await cluster.admit(old)
        await cluster.published("web-0", ALIYUN_COM_GPU_MEM_ASSIGNED="true")
        # By force: the kubelet has not heard of it yet, and ends the old one in its own time.
        await cluster.api.delete("pods", "web-0")
        new = await cluster.bind("web-0", 4, choice=chosen(1))
        await _published_anew(cluster, "one")
        between = cluster.api.get("pods", "web-0")["metadata"]["annotations"]

        status = await cluster.admit(new)
        annotations = await cluster.published("web-0", ALIYUN_COM_GPU_MEM_ASSIGNED="true")
        await cluster.node.kubelet.delete_pod(old.uid)
        await _published_anew(cluster, "two")
        after = cluster.api.get("pods", "web-0")["metadata"]["annotations"]

    assert between == chosen(1)
    assert cards_of(status) == ["1"]
    assert json.loads(annotations[ALLOCATION]) == {"c0": {SECOND: 4}}
    assert after == annotations


async def _published_anew(cluster: Cluster, name: str) -> None:
    """Have the daemon ask the kubelet who holds what, and write what it finds."""
    await cluster.run(name, 1, choice=chosen(0))
    await cluster.published(name)
    # Pods are written one after the other.
    await asyncio.sleep(0.1)


async def test_a_daemon_that_starts_anew_publishes_what_happened_before(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, SimKubelet(kubelet_settings(short_path)) as kubelet:
        await make_node(api)
        pod = await bind(api, "a", 4, annotations=chosen(1))
        async with daemon_running(config_in(short_path)):
            await kubelet.allocatable(RESOURCE, equals=30)
            status = await kubelet.admit(pod)
        async with daemon_running(config_in(short_path, **in_cluster(short_path, api))):
            found = await api.until_object("pods", "a", _is_published)

    # The first daemon knew no API server, so the card is its policy's; the record says so.
    [index] = cards_of(status)
    annotations = found["metadata"]["annotations"]
    assert annotations[INDEX] == index == "0"
    assert json.loads(annotations[ALLOCATION]) == {"c0": {FIRST: 4}}


def _is_published(pod: Any) -> bool:
    return ALLOCATION in pod["metadata"]["annotations"]
