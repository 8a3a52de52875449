"""A resource that gets another name: what pods hold under the old one is not offered again."""

import json
from pathlib import Path

import pytest

from gpushare_plugin.adapters.plugin_folder import InstanceLock
from gpushare_plugin.app import node as app_node
from gpushare_plugin.app.node import NodeDaemon
from gpushare_plugin.errors import ConfigError
from gpushare_plugin.sim.apiserver import SimApiServer
from gpushare_plugin.sim.kubelet import SimKubelet
from tests.node.clusters import NODE, in_cluster, make_node
from tests.node.event_log import EventLog
from tests.node.nodes import (
    RESOURCE,
    STARTS_SECONDS,
    Machine,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
    pod,
)

RENAMED = "example.com/vram"
GPUS = "gpushare.io/gpus"


def record_of(folder: Path, resource: str) -> Path:
    return folder / "plugins" / f"gpushare-{resource.replace('/', '_')}.cards.json"


async def hold_units(kubelet: SimKubelet, folder: Path, log: EventLog, **settings: str) -> None:
    """Serve under the dialect's own name until a pod holds units."""
    async with daemon_running(config_in(folder, **settings)):
        await kubelet.allocatable(RESOURCE, equals=30)
        await log.said("card_record_written")
        await kubelet.admit(pod("holder", 4))


async def refused(folder: Path, **settings: str) -> str:
    """Start, and return why that was refused."""
    with pytest.raises(ExceptionGroup) as group:
        await NodeDaemon(config_in(folder, **settings)).run()
    [reason] = group.value.exceptions
    assert isinstance(reason, ConfigError)
    return str(reason)


@pytest.mark.parametrize(
    ("settings", "name", "units"),
    [
        ({"resource_name": RENAMED}, RENAMED, 30),
        ({"dialect": "tencent"}, "tencent.com/vcuda-memory", 120),
    ],
)
async def test_another_name_is_refused_while_pods_hold_units_of_the_old_and_taken_after_that(
    short_path: Path, log: EventLog, settings: dict[str, str], name: str, units: int
) -> None:
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        await hold_units(kubelet, short_path, log)

        reason = await refused(short_path, **settings)
        kept = record_of(short_path, RESOURCE).exists()
        await kubelet.delete_pod("uid-holder")
        async with daemon_running(config_in(short_path, **settings)):
            await kubelet.allocatable(name, equals=units)
            await log.said("card_record_written", times=2)

    assert reason == (
        f"resource {name}: this node served its cards as {RESOURCE}, and pods hold such units"
        f" (default/holder); drain the node first, or keep {RESOURCE}"
    )
    assert kept
    assert not record_of(short_path, RESOURCE).exists()
    assert record_of(short_path, name).exists()
    [line] = log.of("resource_renamed")
    assert (line["was"], line["now"]) == (RESOURCE, name)


async def test_where_the_kubelet_has_emptied_the_folder_the_node_object_tells_the_old_name(
    short_path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the node object may come later than a start waits for it.
    monkeypatch.setattr(app_node, "RECORD_SECONDS", STARTS_SECONDS)
    async with SimApiServer() as api, SimKubelet(kubelet_settings(short_path)) as kubelet:
        await make_node(api)
        ours = in_cluster(short_path, api)
        async with daemon_running(config_in(short_path, **ours)):
            await kubelet.allocatable(RESOURCE, equals=30)
            await log.said("card_record_written")
            node = await api.until_object(
                "nodes", NODE, lambda each: GPUS in each["metadata"]["annotations"]
            )
            await kubelet.admit(pod("holder", 4))
        record_of(short_path, RESOURCE).unlink()

        reason = await refused(short_path, resource_name=RENAMED, **ours)

    assert json.loads(node["metadata"]["annotations"][GPUS])["resource"] == RESOURCE
    assert f"this node served its cards as {RESOURCE}, and pods hold such units" in reason


async def test_while_another_instance_serves_the_cards_under_another_name_we_wait(
    short_path: Path, log: EventLog
) -> None:
    folder = short_path / "plugins"
    folder.mkdir()
    record_of(short_path, RENAMED).touch()
    lock = InstanceLock(folder, RENAMED)
    assert lock.take()
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        line = await log.said("plugin_folder_unavailable")
        status, text = await node.page("/readyz")
        assert not node.sockets()

        lock.release()
        await node.ready()
        # Nor may it begin again beside us.
        taken_beside_us = lock.take()
    assert lock.take()
    lock.release()

    assert line["error"] == f"another instance serves the cards as {RENAMED}"
    assert (status, line["error"] in text) == (503, True)
    assert not taken_beside_us


async def test_the_record_of_the_old_name_stays_until_the_kubelet_has_taken_the_new_one(
    short_path: Path, log: EventLog
) -> None:
    record = record_of(short_path, RENAMED)
    record.parent.mkdir()
    record.write_text("{}", encoding="utf-8")
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await log.said("held_units_unknown")
        assert record.exists()

        await node.kubelet.start()
        await node.ready()
        await log.said("resource_renamed", was=RENAMED)

    assert not record.exists()


async def test_an_old_record_that_cannot_be_removed_is_told_and_stops_nobody(
    short_path: Path, log: EventLog
) -> None:
    record_of(short_path, RENAMED).mkdir(parents=True)
    async with node_in(short_path, log) as node:
        await node.ready()
        line = await log.said("card_record_not_removed")

    assert str(record_of(short_path, RENAMED)) in line["error"]
