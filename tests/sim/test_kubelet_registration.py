"""How a plugin comes, is listened to, and goes."""

import asyncio
import socket
import stat
from pathlib import Path

import grpc
import pytest
from grpc import aio

from gpushare_plugin.sim.kubelet import Faults, SimKubelet
from tests.sim.kubelet_peers import (
    RESOURCE,
    TinyPlugin,
    devices,
    pod,
    register,
    running_kubelet,
    settings_in,
    short_folder,
)


def is_socket(path: Path) -> bool:
    return path.exists() and stat.S_ISSOCK(path.stat().st_mode)


def refuses(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) != 0


async def refusal(kubelet: SimKubelet, **fields: str) -> tuple[grpc.StatusCode, str]:
    request = {"version": "v1beta1", "endpoint": "tiny.sock", "resource_name": RESOURCE}
    with pytest.raises(aio.AioRpcError) as failure:
        await register(kubelet, **request | fields)
    return failure.value.code(), failure.value.details() or ""


async def test_the_kubelet_asks_for_the_options_inside_register_and_for_the_devices_after() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.register()
        before_the_answer = [method for method, _ in plugin.calls]
        await kubelet.allocatable(RESOURCE, equals=16)

        assert before_the_answer[0] == "GetDevicePluginOptions"
        assert [m for m, _ in plugin.calls] == ["GetDevicePluginOptions", "ListAndWatch"]


async def test_starting_wipes_every_socket_but_no_other_file_and_no_folder() -> None:
    with short_folder() as folder:
        settings = settings_in(folder)
        settings.plugin_dir.mkdir()
        (settings.plugin_dir / "notes.txt").write_text("kept")
        (settings.plugin_dir / "folder.sock").mkdir()
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(str(settings.plugin_dir / "left-over.sock"))
        async with SimKubelet(settings):
            names = sorted(path.name for path in settings.plugin_dir.iterdir())

    assert names == ["folder.sock", "kubelet.sock", "notes.txt"]


async def test_starting_makes_the_folders_that_are_missing() -> None:
    async with running_kubelet() as kubelet:
        assert is_socket(kubelet.settings.plugin_dir / "kubelet.sock")
        assert is_socket(kubelet.settings.pod_resources_socket)


async def test_a_stopped_kubelet_ends_the_stream_and_leaves_a_dead_socket_as_it_was() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        path = kubelet.settings.plugin_dir / "kubelet.sock"
        before = path.stat()

        await kubelet.stop()
        await asyncio.wait_for(plugin.stream_ended.wait(), 1)

        after = path.stat()
        assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns)
        assert is_socket(path)
        assert refuses(path)
        assert is_socket(plugin.path)
        assert is_socket(kubelet.settings.pod_resources_socket)
        assert kubelet.state().resources[RESOURCE].allocatable == 4


async def test_a_restarted_kubelet_has_a_new_socket_and_has_forgotten_the_plugin() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        path = kubelet.settings.plugin_dir / "kubelet.sock"
        before = path.stat().st_ctime_ns

        await kubelet.restart()

        resource = kubelet.state().resources[RESOURCE]
        assert path.stat().st_ctime_ns != before
        assert not refuses(path)
        assert not plugin.path.exists()
        assert (resource.capacity, resource.allocatable) == (0, 0)


async def test_a_plugin_that_serves_and_registers_again_after_a_restart_is_back() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.restart(gap_seconds=0.01)
        await plugin.stop()
        await plugin.serve()
        await plugin.come_up()

        await kubelet.registered(RESOURCE, count=2)


async def test_sockets_are_wiped_late_where_the_wipe_is_delayed() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(1)) as plugin:
        await kubelet.stop()
        starting = asyncio.create_task(kubelet.start(wipe_delay_seconds=0.1), name="start")
        await asyncio.sleep(0.03)
        early = plugin.path.exists(), refuses(kubelet.settings.plugin_dir / "kubelet.sock")
        await starting

        assert early == (True, True)
        assert not plugin.path.exists()


async def test_a_wrong_version_is_refused_in_the_kubelets_words() -> None:
    async with running_kubelet() as kubelet:
        answer = await refusal(kubelet, version="v1alpha")

    words = 'requested API version "v1alpha" is not supported by kubelet.'
    assert answer == (grpc.StatusCode.UNKNOWN, f'{words} Supported version is ["v1beta1"]')


@pytest.mark.parametrize(
    "name",
    [
        "gpu-mem",
        "kubernetes.io/gpu",
        "x.kubernetes.io/gpu",
        "requests.example.com/gpu",
        "Example.com/gpu",
        "example.com/gpu/mem",
        "example.com/",
        "/gpu",
        "example.com/-gpu",
        "example.com/" + "g" * 64,
        "e" * 245 + "/gpu",
    ],
)
async def test_a_name_that_is_no_extended_resource_is_refused(name: str) -> None:
    async with running_kubelet() as kubelet:
        answer = await refusal(kubelet, resource_name=name)

    assert answer == (grpc.StatusCode.UNKNOWN, f'the ResourceName "{name}" is invalid')


@pytest.mark.parametrize("name", ["example.com/gpu_mem.v2", "e.x/" + "g" * 63, "a/b"])
async def test_a_name_at_the_limits_is_accepted(name: str) -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(1)) as plugin:
        plugin.resource = name

        await plugin.come_up()


async def test_a_plugin_that_does_not_serve_is_waited_for_and_then_refused() -> None:
    async with running_kubelet(dial_seconds=0.1) as kubelet:
        code, text = await refusal(kubelet)

        assert code is grpc.StatusCode.UNKNOWN
        assert text == "failed to dial device plugin: context deadline exceeded"
        (rejection,) = kubelet.state().rejections
        assert rejection.error == text


async def test_a_plugin_that_cannot_tell_its_options_is_refused() -> None:
    async with running_kubelet() as kubelet:
        silent = aio.server()
        silent.add_insecure_port(f"unix:{kubelet.settings.plugin_dir}/tiny.sock")
        await silent.start()
        code, text = await refusal(kubelet)
        await silent.stop(None)

    words = "failed to get device plugin options: rpc error: code = Unimplemented desc = "
    assert (code, text[: len(words)]) == (grpc.StatusCode.UNKNOWN, words)


async def test_the_endpoint_is_joined_to_the_folder_so_dots_lead_out_but_a_slash_does_not() -> None:
    async with running_kubelet(dial_seconds=0.1) as kubelet:
        plugin = TinyPlugin(kubelet, devices(2), endpoint="../outside.sock")
        async with plugin:
            await plugin.come_up()
            outside = str(plugin.path.resolve())
            _, text = await refusal(kubelet, endpoint=outside)

    assert text == "failed to dial device plugin: context deadline exceeded"


async def test_options_are_asked_for_and_those_in_the_request_are_not_looked_at() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(2)) as plugin:
        plugin.options.get_preferred_allocation_available = True
        await plugin.register(options=None)

        (record,) = kubelet.state().registrations
        assert (record.endpoint, record.resource, record.version) == (
            "tiny.sock",
            RESOURCE,
            "v1beta1",
        )
        assert record.get_preferred_allocation_available
        assert not record.pre_start_required


async def test_an_old_kubelet_takes_the_options_from_the_request_and_asks_nothing() -> None:
    async with (
        running_kubelet(options_from_register=True) as kubelet,
        TinyPlugin(kubelet, devices(2), prefer=True) as plugin,
    ):
        await plugin.come_up()
        await kubelet.admit(pod("a", 1))

        assert plugin.called("GetDevicePluginOptions") == []
        assert len(plugin.called("GetPreferredAllocation")) == 1


async def test_so_many_registrations_are_refused_as_were_asked_for() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(1)) as plugin:
        faults = Faults(refuse_registrations=2, refuse_text="busy", refuse_status="UNAVAILABLE")
        await kubelet.set_faults(faults)
        answers = [await refusal(kubelet), await refusal(kubelet)]
        await plugin.come_up()

        assert answers == [(grpc.StatusCode.UNAVAILABLE, "busy")] * 2


async def test_register_is_slow_where_told_so() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(1)) as plugin:
        await kubelet.set_faults(Faults(register_seconds=0.1))
        registering = asyncio.create_task(plugin.register(), name="register")
        done, _ = await asyncio.wait([registering], timeout=0.05)
        await registering

        assert not done


async def test_register_that_hangs_ends_with_the_kubelet() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(1)) as plugin:
        await kubelet.set_faults(Faults(register_hangs=True))
        registering = asyncio.create_task(plugin.register(), name="register")
        done, _ = await asyncio.wait([registering], timeout=0.05)
        await kubelet.stop()
        with pytest.raises(aio.AioRpcError):
            await registering

        assert not done


async def test_a_registration_whose_caller_gave_up_goes_on() -> None:
    async with running_kubelet() as kubelet:
        plugin = TinyPlugin(kubelet, devices(3))
        registering = asyncio.create_task(plugin.register(), name="register")
        await asyncio.sleep(0.05)
        registering.cancel()
        async with plugin:
            await kubelet.allocatable(RESOURCE, equals=3)


async def test_a_kubelet_can_accept_a_plugin_and_never_ask_for_its_devices() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(1)) as plugin:
        await kubelet.set_faults(Faults(withhold_list_and_watch=True))
        await plugin.register()
        await asyncio.sleep(0.05)

        assert plugin.called("ListAndWatch") == []
        assert RESOURCE not in kubelet.state().resources


# -------------------------------------------------------------------------- ListAndWatch


async def test_every_message_replaces_the_whole_list() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(16)) as plugin:
        await plugin.come_up()
        plugin.send(devices(5, prefix="e", unhealthy=2))
        await kubelet.allocatable(RESOURCE, equals=3)

        state = kubelet.state()
        (stream,) = state.streams
        assert state.resources[RESOURCE].capacity == 5
        assert state.resources[RESOURCE].health["e-0"] == "Unhealthy"
        assert state.resources[RESOURCE].health["e-4"] == "Healthy"
        assert (stream.open, stream.messages, stream.endpoint) == (True, 2, "tiny.sock")
        assert stream.last_bytes == 5 * (len("e-0") + 13) + 2 * len("Un")


async def test_a_plugin_that_dies_leaves_its_capacity_for_the_grace_period_only() -> None:
    async with (
        running_kubelet(endpoint_grace_seconds=0.2) as kubelet,
        TinyPlugin(kubelet, devices(16)) as plugin,
    ):
        await plugin.come_up()
        await plugin.stop()
        await kubelet.allocatable(RESOURCE, equals=0)
        at_once = kubelet.state().resources[RESOURCE]
        await kubelet.capacity(RESOURCE, equals=0)

        assert at_once.capacity == 16
        assert set(at_once.health.values()) == {"Unhealthy"}
        assert RESOURCE in kubelet.state().resources
        assert not kubelet.state().open_streams(RESOURCE)


async def test_a_plugin_back_within_the_grace_period_needs_only_to_register() -> None:
    async with (
        running_kubelet(endpoint_grace_seconds=0.1) as kubelet,
        TinyPlugin(kubelet, devices(16)) as plugin,
    ):
        await plugin.come_up()
        await plugin.stop()
        await kubelet.allocatable(RESOURCE, equals=0)
        await plugin.serve()
        await plugin.come_up()
        await asyncio.sleep(0.15)

        assert kubelet.state().resources[RESOURCE].allocatable == 16


async def test_a_message_over_the_limit_drops_the_stream_and_tells_nothing_else() -> None:
    # A healthy device takes its ID and 13 bytes more: ten-9 and its like take 18.
    async with (
        running_kubelet(receive_limit_bytes=10 * 18) as kubelet,
        TinyPlugin(kubelet, devices(10, prefix="ten")) as plugin,
    ):
        await plugin.come_up()
        plugin.send([*plugin.listed, *devices(1)])
        await kubelet.allocatable(RESOURCE, equals=0)

        (stream,) = kubelet.state().streams
        assert (stream.open, stream.messages, stream.last_bytes) == (False, 1, 180)
        assert stream.error == (
            "rpc error: code = ResourceExhausted desc = "
            "grpc: received message larger than max (196 vs. 180)"
        )
        assert kubelet.state().resources[RESOURCE].capacity == 10
        assert len(kubelet.state().registrations) == 1


async def test_the_limits_are_the_real_ones() -> None:
    async with running_kubelet() as kubelet:
        assert kubelet.settings.receive_limit_bytes == 4_194_304
        assert kubelet.settings.dial_seconds == 10
        assert kubelet.settings.prestart_seconds == 30
        assert kubelet.settings.endpoint_grace_seconds == 300


async def test_a_stream_dropped_by_the_kubelet_is_seen_by_the_plugin_and_not_dialled_again() -> (
    None
):
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await kubelet.drop_stream(RESOURCE)
        await kubelet.allocatable(RESOURCE, equals=0)
        await asyncio.wait_for(plugin.stream_ended.wait(), 1)

        assert kubelet.state().resources[RESOURCE].capacity == 4
        assert len(plugin.called("ListAndWatch")) == 1
        assert is_socket(plugin.path)


async def test_a_stream_that_the_plugin_ends_counts_as_the_plugins_end() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        plugin.end_streams()
        await kubelet.allocatable(RESOURCE, equals=0)

        (stream,) = kubelet.state().streams
        assert (stream.open, stream.error) == (False, "EOF")
        assert kubelet.state().resources[RESOURCE].capacity == 4


# ---------------------------------------------------------------------------- overlap


async def test_of_two_plugins_the_newer_one_serves_and_both_are_listened_to() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(4), endpoint="old.sock") as old,
        TinyPlugin(kubelet, devices(6), endpoint="new.sock") as new,
    ):
        await old.come_up()
        await new.come_up()
        streams = kubelet.state().open_streams(RESOURCE)
        old.send(devices(5))
        await kubelet.allocatable(RESOURCE, equals=5)
        await kubelet.admit(pod("a", 2))

        assert [stream.endpoint for stream in streams] == ["old.sock", "new.sock"]
        assert (len(old.called("Allocate")), len(new.called("Allocate"))) == (0, 1)


async def test_when_the_older_of_two_plugins_ends_the_newer_one_is_hung_up_on() -> None:
    async with (
        running_kubelet() as kubelet,
        TinyPlugin(kubelet, devices(4), endpoint="old.sock") as old,
        TinyPlugin(kubelet, devices(6), endpoint="new.sock") as new,
    ):
        await old.come_up()
        await new.come_up()
        await old.stop()
        await kubelet.allocatable(RESOURCE, equals=0)
        await asyncio.wait_for(new.stream_ended.wait(), 1)
        await kubelet.until(
            lambda: not kubelet.state().open_streams(RESOURCE), failure=lambda: "a stream is open"
        )

        assert kubelet.state().resources[RESOURCE].capacity == 6
        assert kubelet.state().streams[1].error == (
            "rpc error: code = Canceled desc = grpc: the client connection is closing"
        )
        assert is_socket(new.path)


async def test_one_plugin_that_registers_twice_on_one_stream_brings_the_bug_on_itself() -> None:
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await plugin.register()
        await plugin.until_called("ListAndWatch", times=2)
        await plugin.stop()
        await kubelet.allocatable(RESOURCE, equals=0)
