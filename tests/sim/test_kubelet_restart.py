"""What a kubelet that restarts remembers, and what a reboot costs."""

import asyncio
import base64
import json
import threading
from pathlib import Path

import pytest

from gpushare_plugin.proto import deviceplugin_v1beta1_pb2 as wire
from gpushare_plugin.sim.kubelet import (
    ContainerState,
    KubeletStoppedError,
    Phase,
    WaitExpiredError,
)
from gpushare_plugin.sim.kubelet.tasks import LifeTasks
from tests.sim.kubelet_peers import (
    RESOURCE,
    Context,
    TinyPlugin,
    devices,
    pod,
    pod_resources,
    running_kubelet,
)


async def come_back(plugin: TinyPlugin) -> None:
    """What a plugin must do after a restart of the kubelet."""
    await plugin.stop()
    await plugin.serve()
    await plugin.come_up()


async def test_running_pods_keep_their_devices_over_a_restart_without_any_call() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        before = await kubelet.admit(pod("a", 3))
        calls = len(plugin.calls)
        await kubelet.restart()
        async with pod_resources(kubelet) as reader:
            (listed,) = await reader.pods()
            allocatable = await reader.allocatable()

        ids = sorted(i for entry in listed.containers[0].devices for i in entry.device_ids)
        assert kubelet.state().pod("uid-a") == before
        assert tuple(ids) == before.container("main").devices[RESOURCE]
        assert allocatable == []
        assert len(plugin.calls) == calls


async def test_devices_held_before_a_restart_are_not_given_out_after_it() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 3))
        await kubelet.restart()
        await come_back(plugin)
        status = await kubelet.admit(pod("b", 2))

        assert "Requested: 2, Available: 1" in status.message


async def test_a_container_that_dies_before_the_plugin_is_back_restarts_without_a_call() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(4), pre_start=True) as plugin,
    ):
        await plugin.come_up()
        before = await kubelet.admit(pod("a", 1))
        await kubelet.restart()
        calls = len(plugin.calls)
        again = await kubelet.restart_container("uid-a", "main")

        assert (again.state, again.restarts) == (ContainerState.RUNNING, 1)
        assert again.env == before.container("main").env
        assert len(plugin.calls) == calls


async def test_the_checkpoint_is_the_kubelets_json() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        status = await kubelet.admit(pod("a", 2))
        path = kubelet.settings.plugin_dir / "kubelet_internal_checkpoint"
        document = json.loads(path.read_text())

        (entry,) = document["Data"]["PodDeviceEntries"]
        answer = wire.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
        assert isinstance(document["Checksum"], int)
        assert document["Data"]["RegisteredDevices"] == {RESOURCE: [f"d-{n}" for n in range(4)]}
        assert (entry["PodUID"], entry["ContainerName"]) == ("uid-a", "main")
        assert entry["ResourceName"] == RESOURCE
        assert entry["DeviceIDs"] == {"-1": list(status.container("main").devices[RESOURCE])}
        assert dict(answer.envs) == status.container("main").env


@pytest.mark.parametrize("damage", ["", "{", '{"Data": {}, "Checksum": 1}', "[]"])
async def test_a_damaged_checkpoint_counts_as_none(damage: str) -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 2))
        await kubelet.stop()
        (kubelet.settings.plugin_dir / "kubelet_internal_checkpoint").write_text(damage)
        await kubelet.start()

        assert kubelet.state().resources == {}


async def test_a_checkpoint_edited_by_hand_fails_its_checksum() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.stop()
        path = kubelet.settings.plugin_dir / "kubelet_internal_checkpoint"
        path.write_text(path.read_text().replace("d-3", "d-9"))
        await kubelet.start()

        assert kubelet.state().resources == {}


async def test_after_a_reboot_pods_with_devices_fail_for_good_and_others_start_again() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.admit(pod("a", 2))
        await kubelet.admit(pod("cpu"))
        await kubelet.reboot()
        failed, started = kubelet.state().pods
        await come_back(plugin)

        assert (failed.phase, failed.reason) == (Phase.FAILED, "UnexpectedAdmissionError")
        assert failed.message == (
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
            f"unhealthy devices {RESOURCE}, which is unexpected"
        )
        assert (started.phase, started.container("main").restarts) == (Phase.RUNNING, 1)
        assert kubelet.state().pod("uid-a").phase is Phase.FAILED
        assert (await kubelet.admit(pod("b", 4))).phase is Phase.RUNNING


async def test_a_pod_whose_admission_a_stop_broke_off_is_rejected_at_the_next_start() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()

        async def never(ids: list[str], context: Context) -> wire.AllocateResponse:
            await asyncio.Event().wait()
            raise AssertionError(ids)

        plugin.on_allocate = never
        admitting = [
            asyncio.create_task(kubelet.admit(pod(name, 1)), name=f"admit {name}") for name in "ab"
        ]
        await plugin.until_called("Allocate")
        await kubelet.stop()
        outcomes = await asyncio.gather(*admitting, return_exceptions=True)
        while_stopped = kubelet.state().pods
        await kubelet.start()

        assert [type(outcome) for outcome in outcomes] == [KubeletStoppedError] * 2
        assert [status.phase for status in while_stopped] == [Phase.PENDING]
        assert [status.phase for status in kubelet.state().pods] == [Phase.FAILED]


async def test_starting_twice_or_stopping_twice_changes_nothing() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.start()
        registered = kubelet.state().resources[RESOURCE].allocatable
        await kubelet.stop()
        await kubelet.stop()

        assert registered == 4
        assert not kubelet.state().running


async def test_a_start_that_fails_leaves_a_kubelet_that_can_be_started_later() -> None:
    async with running_kubelet() as kubelet:
        await kubelet.stop()
        folder = kubelet.settings.pod_resources_socket.parent
        kubelet.settings.pod_resources_socket.unlink()
        folder.rmdir()
        folder.write_text("in the way")
        with pytest.raises(FileExistsError):
            await kubelet.start()
        failed = kubelet.state().running
        folder.unlink()
        await kubelet.start()

        assert not failed
        assert kubelet.state().running


async def test_a_task_that_fails_is_told_when_its_life_ends() -> None:
    async def fail() -> None:
        raise ValueError("a mistake of ours")

    tasks = LifeTasks()
    tasks.spawn(fail(), name="fail")
    tasks.spawn(asyncio.sleep(60), name="sleep")
    await asyncio.sleep(0)
    with pytest.raises(ExceptionGroup) as group:
        await tasks.end()

    assert [str(failure) for failure in group.value.exceptions] == ["a mistake of ours"]


async def test_forty_restarts_leave_no_task_thread_or_open_file_behind() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.restart()
        await come_back(plugin)
        before = census()
        for _ in range(40):
            await kubelet.restart()
            await come_back(plugin)
        after = census()

        assert len(kubelet.state().registrations) == 42
        assert all(count <= before[kind] + 3 for kind, count in after.items()), (before, after)


def census() -> dict[str, int]:
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": len([*Path("/proc/self/fd").iterdir()]),
    }


async def test_a_wait_that_expires_says_what_was_there_instead() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        with pytest.raises(WaitExpiredError, match=r"is not 5: capacity 4, allocatable 4"):
            await kubelet.allocatable(RESOURCE, equals=5, timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match=r"registered 1 times, not 2"):
            await kubelet.registered(RESOURCE, count=2, timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match=r"the node does not know it"):
            await kubelet.capacity("example.com/x", equals=1, timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match=r"pod uid-a never was Running"):
            await kubelet.pod_in_phase("uid-a", Phase.RUNNING, timeout_seconds=0.01)
        with pytest.raises(WaitExpiredError, match=r"nothing changed since version"):
            await kubelet.newer_state(kubelet.state().version, timeout_seconds=0.01)
