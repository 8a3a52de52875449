"""A card keeps its index, its units and its IDs over restarts, whatever is missing by then."""

import json
from pathlib import Path

import pytest

from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import SimKubelet
from tests.node.clusters import NODE, chosen, daemon_in, in_cluster, make_node
from tests.node.event_log import EventLog
from tests.node.nodes import (
    FIRST,
    FIRST_TAG,
    RESOURCE,
    SECOND,
    Machine,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
    pod,
    profile_in,
)

THIRD = "GPU-c0ffee00-0000-4000-8000-000000000001"
GPUS, HEALTH = "gpushare.io/gpus", "gpushare.io/health"
LOST = {"state": "unhealthy", "reason": "lost: NVML does not show it"}
PAGES = {"status_address": "127.0.0.1:0"}


def machine(folder: Path, *uuids: str) -> str:
    """The profile of a machine with these cards, in this order."""
    lines = [f'gpu uuid={uuid} name="Tesla T4" total_mib=15360\n' for uuid in uuids]
    return profile_in(folder, "".join(lines))


def file_in(folder: Path) -> Path:
    return folder / "plugins" / "gpushare-aliyun.com_gpu-mem.cards.json"


def indexes(text: str) -> dict[str, int]:
    return {each["uuid"]: each["index"] for each in json.loads(text)["gpus"]}


async def served_once(folder: Path, log: EventLog, *uuids: str, **settings: str) -> None:
    """Serve a node with these cards until they are on record."""
    before = len(log.of("card_record_written"))
    profile = machine(folder, *uuids)
    async with node_in(folder, log, simulate=profile, **settings):
        await log.said("card_record_written", times=before + 1)


# ------------------------------------------------------------------------ a card is missing


async def test_b33_b40_a_card_that_is_missing_at_a_restart_keeps_index_units_and_ids(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, SimKubelet(kubelet_settings(short_path)) as kubelet:
        await make_node(api)
        ours = in_cluster(short_path, api)
        both = config_in(short_path, simulate=machine(short_path, FIRST, SECOND), **ours)
        async with daemon_running(both):
            await kubelet.allocatable(RESOURCE, equals=30)
            await log.said("card_record_written")

        one = config_in(short_path, simulate=machine(short_path, SECOND), **ours)
        async with daemon_running(one):
            await kubelet.registered(RESOURCE, count=2)
            await kubelet.allocatable(RESOURCE, equals=15)
            state = kubelet.state().resources[RESOURCE]
            status = await kubelet.admit(pod("a", 4))
            node = await api.until_object(
                "nodes", NODE, lambda each: FIRST in each["metadata"]["annotations"][HEALTH]
            )

            EventsFile(short_path / "events").add(uuid=FIRST, name="Tesla T4", total_mib=15360)
            await kubelet.allocatable(RESOURCE, equals=30)

    assert state.capacity == 30
    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    annotations = node["metadata"]["annotations"]
    assert indexes(annotations[GPUS]) == {FIRST: 0, SECOND: 1}
    assert json.loads(annotations[HEALTH]) == {FIRST: LOST}
    [line] = log.of("card_healthy")
    assert (line["card"], line["was"]) == ("0", LOST["reason"])


async def test_a_new_card_comes_behind_the_lost_ones(short_path: Path, log: EventLog) -> None:
    await served_once(short_path, log, FIRST, SECOND)
    await served_once(short_path, log, THIRD, SECOND)

    assert indexes(file_in(short_path).read_text()) == {FIRST: 0, SECOND: 1, THIRD: 2}


async def test_where_every_card_is_lost_the_kubelet_is_told_that_none_can_be_given(
    short_path: Path, log: EventLog
) -> None:
    await served_once(short_path, log, FIRST, SECOND)

    async with node_in(short_path, log, simulate=machine(short_path)) as node:
        await node.kubelet.capacity(RESOURCE, equals=30)
        assert node.resource.allocatable == 0


async def test_without_health_checks_a_card_that_was_lost_before_the_start_is_not_given_out(
    short_path: Path, log: EventLog
) -> None:
    await served_once(short_path, log, FIRST, SECOND)

    one = machine(short_path, SECOND)
    async with node_in(short_path, log, simulate=one, health="off") as node:
        await node.kubelet.capacity(RESOURCE, equals=30)
        assert node.resource.allocatable == 15
        node.gpus.add(uuid=FIRST, name="Tesla T4", total_mib=15360)
        await node.kubelet.allocatable(RESOURCE, equals=30)


async def test_a_mig_instance_that_was_destroyed_keeps_its_place(
    short_path: Path, log: EventLog
) -> None:
    parent = f'gpu uuid={FIRST} name="A100" total_mib=40960 mig=on\n'
    slices = [
        f"mig gpu=0 uuid=MIG-{n} gi={n} ci=0 profile_name=1g total_mib=4096\n" for n in (1, 2)
    ]
    settings = {"mig": "shared"}
    profile = profile_in(short_path, parent + "".join(slices))
    async with node_in(short_path, log, simulate=profile, **settings):
        await log.said("card_record_written")

    profile = profile_in(short_path, parent + slices[1])
    async with node_in(short_path, log, simulate=profile, **settings) as node:
        await node.kubelet.capacity(RESOURCE, equals=8)
        assert node.resource.allocatable == 4
        status = await node.kubelet.admit(pod("a", 4))

    assert status.container("c0").env["NVIDIA_VISIBLE_DEVICES"] == "MIG-2"
    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"


# ------------------------------------------------------------------ where the record is from


async def test_b40_with_a_copy_on_the_node_a_start_waits_for_no_api_server(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await make_node(api)
        await served_once(short_path, log, FIRST, SECOND, **in_cluster(short_path, api))
        await api.go_away()
        log.events.clear()

        turned = machine(short_path, SECOND, FIRST)
        async with daemon_in(short_path, log, api, simulate=turned) as cluster:
            await cluster.node.ready()
            await log.said("watch_failing")

    order = [event for event, _ in log.events if event in ("registered", "watch_failing")]
    assert order[0] == "registered"
    assert [line["uuid"] for line in log.of("card_shared")] == [FIRST, SECOND]


async def test_a_node_object_that_comes_too_late_and_says_something_else_is_told(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        record = {
            "v": 1,
            "unit_mib": 1024,
            "gpus": [
                {"index": index, "uuid": uuid, "units": 15, "model": "Tesla T4"}
                for index, uuid in enumerate((FIRST, SECOND))
            ],
        }
        await make_node(api, annotations={GPUS: json.dumps(record)})
        await api.go_away()
        turned = machine(short_path, SECOND, FIRST)
        async with daemon_in(short_path, log, api, simulate=turned) as cluster:
            await cluster.node.ready()
            await api.come_back()
            line = await log.said("node_record_late")

    assert line["cards"] == f"{FIRST},{SECOND}"


async def test_a_card_that_cannot_be_shared_by_the_settings_of_now_keeps_its_place(
    short_path: Path, log: EventLog
) -> None:
    small = f'gpu uuid={FIRST} name="Tesla T4" total_mib=2048\n'
    large = f'gpu uuid={SECOND} name="Tesla T4" total_mib=15360\n'
    profile = profile_in(short_path, small + large)
    async with node_in(short_path, log, simulate=profile):
        await log.said("card_record_written")

    async with node_in(short_path, log, simulate=profile, memory_unit="4GiB") as node:
        await node.ready(units=3)
        status = await node.kubelet.admit(pod("a", 3))

    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert log.of("card_unhealthy")[0]["reason"] == "its 2048 MiB do not hold one unit of 4GiB"


async def test_without_a_cluster_cards_keep_their_index_too(
    short_path: Path, log: EventLog
) -> None:
    await served_once(short_path, log, FIRST, SECOND)

    async with node_in(short_path, log, simulate=machine(short_path, SECOND, FIRST)) as node:
        await node.ready()

    assert [line["uuid"] for line in log.of("card_shared")] == [FIRST, SECOND] * 2


async def test_a_tag_that_is_on_record_is_kept_whatever_the_uuid_alone_would_give(
    short_path: Path, log: EventLog
) -> None:
    await served_once(short_path, log, FIRST)
    content = json.loads(file_in(short_path).read_text())
    content["gpus"][0]["tag"] = "0123abcd"
    file_in(short_path).write_text(json.dumps(content), encoding="utf-8")

    await served_once(short_path, log, FIRST, SECOND)

    assert [line["device_prefix"] for line in log.of("card_shared", uuid=FIRST)] == [
        FIRST_TAG,
        "0123abcd",
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param("", "which does not parse", id="empty, after a power cut"),
        pytest.param('{"v":1,"node":"gpu-a","unit', "which does not parse", id="torn"),
        pytest.param('{"v":2}', "found version 2, expected 1", id="of a later version"),
        pytest.param(
            '{"v":1,"node":"gpu-b","unit_mib":1024,"gpus":[]}',
            "found the record of node 'gpu-b', expected that of 'gpu-a'",
            id="of another node, from a cloned disk",
        ),
    ],
)
async def test_a_copy_that_is_of_no_use_is_told_and_the_node_object_gives_the_record(
    short_path: Path, log: EventLog, content: str, found: str
) -> None:
    async with SimApiServer() as api:
        await make_node(api)
        ours = in_cluster(short_path, api)
        await served_once(short_path, log, FIRST, SECOND, **ours)
        await api.until_object("nodes", NODE, lambda n: GPUS in n["metadata"]["annotations"])
        file_in(short_path).write_text(content, encoding="utf-8")

        await served_once(short_path, log, SECOND, FIRST, **ours)

    [line] = log.of("card_record_unreadable")
    assert line["error"].startswith(f"{file_in(short_path)}: ")
    assert found in line["error"]
    text = file_in(short_path).read_text()
    assert indexes(text) == {FIRST: 0, SECOND: 1}
    assert json.loads(text)["node"] == NODE


async def test_where_both_are_there_and_differ_the_copy_on_the_node_wins(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await make_node(api)
        ours = in_cluster(short_path, api)
        await served_once(short_path, log, FIRST, SECOND, **ours)
        node = await api.until_object("nodes", NODE, lambda n: GPUS in n["metadata"]["annotations"])
        turned = json.loads(node["metadata"]["annotations"][GPUS])
        for each in turned["gpus"]:
            each["index"] = 1 - each["index"]
        change = {"annotations": {GPUS: json.dumps(turned)}}
        await api.patch("nodes", NODE, {"metadata": change})

        async with daemon_in(short_path, log, api, simulate=machine(short_path, FIRST, SECOND)):
            await api.until_object(
                "nodes",
                NODE,
                lambda n: indexes(n["metadata"]["annotations"][GPUS]) == {FIRST: 0, SECOND: 1},
            )

    assert not log.of("node_record_late")


# ----------------------------------------------------------- forgetting, and another unit


async def test_a_card_is_forgotten_only_once_no_pod_holds_units_that_would_move(
    short_path: Path, log: EventLog
) -> None:
    forget = {"forget_cards": FIRST}
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        both = machine(short_path, FIRST, SECOND)
        async with daemon_running(config_in(short_path, simulate=both, **forget)):
            await kubelet.allocatable(RESOURCE, equals=30)
            await log.said("card_record_written")
            # It is there, so it is not forgotten, and it is full, so the next one is moved by it.
            await kubelet.admit(pod("on-first", 15))
            holder = await kubelet.admit(pod("on-second", 4))
            await kubelet.delete_pod("uid-on-first")

        one = config_in(short_path, simulate=machine(short_path, SECOND), **forget)
        async with daemon_running(one):
            await kubelet.registered(RESOURCE, count=2)
            await kubelet.allocatable(RESOURCE, equals=15)
            refused = await log.said("card_not_forgotten")
            await kubelet.delete_pod("uid-on-second")

        async with daemon_running(one):
            await kubelet.registered(RESOURCE, count=3)
            await kubelet.capacity(RESOURCE, equals=15)
            await log.said("card_record_written", times=2)

        async with daemon_running(one):
            await kubelet.registered(RESOURCE, count=4)

    assert holder.container("c0").env["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert "default/on-second" in refused["reason"]
    assert indexes(file_in(short_path).read_text()) == {SECOND: 0}
    assert [line["uuid"] for line in log.of("card_forgotten")] == [FIRST]


async def test_another_unit_is_not_served_while_the_kubelet_does_not_tell_who_holds_the_old_one(
    short_path: Path, log: EventLog
) -> None:
    await served_once(short_path, log, FIRST, SECOND)

    finer = {"memory_unit": "512MiB", "simulate": machine(short_path, FIRST, SECOND), **PAGES}
    async with node_in(short_path, log, Machine(kubelet_runs=False), **finer) as node:
        await log.said("held_units_unknown")
        status, text = await node.page("/readyz")
        assert not node.sockets()

        await node.kubelet.start()
        await node.ready(units=60)
        assert await node.page("/readyz") == (200, "ok\n")

    assert status == 503
    assert "memory unit 512MiB: this node shares by GiB, and who holds such units" in text
    assert json.loads(file_in(short_path).read_text())["unit_mib"] == 512


async def test_the_index_of_a_pods_choice_means_the_same_card_after_a_restart(
    short_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await make_node(api)
        await served_once(short_path, log, FIRST, SECOND, **in_cluster(short_path, api))
        profile = machine(short_path, SECOND, FIRST)
        async with daemon_in(short_path, log, api, simulate=profile) as cluster:
            await cluster.ready()
            await cluster.recorded()
            status = await cluster.run("a", 2, choice=chosen(0))

    assert status.containers[0].env["NVIDIA_VISIBLE_DEVICES"] == FIRST
