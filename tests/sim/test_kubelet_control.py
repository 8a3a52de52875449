"""The kubelet in another process, or as if it were: the control socket."""

import asyncio
import inspect
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpushare_plugin.sim.json_values import decode, encode
from gpushare_plugin.sim.kubelet import (
    ContainerSpec,
    ControlServer,
    Faults,
    KubeletControl,
    KubeletSettings,
    KubeletStoppedError,
    Phase,
    PodResourcesShape,
    SimKubelet,
    UnknownPodError,
    WaitExpiredError,
)
from gpushare_plugin.sim.kubelet.control import VERBS
from tests.sim.kubelet_peers import (
    RESOURCE,
    TinyPlugin,
    devices,
    pod,
    running_kubelet,
    settings_in,
    short_folder,
)


@asynccontextmanager
async def controlled() -> AsyncIterator[tuple[SimKubelet, KubeletControl]]:
    async with running_kubelet() as kubelet:
        path = kubelet.settings.plugin_dir.parent / "control.sock"
        async with ControlServer(kubelet, path):
            yield kubelet, KubeletControl(path)


async def raw_reply(kubelet: SimKubelet, line: str) -> dict[str, str]:
    path = kubelet.settings.plugin_dir.parent / "control.sock"
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(line.encode() + b"\n")
    reply: dict[str, str] = json.loads(await reader.readline())
    writer.close()
    await writer.wait_closed()
    return reply


def test_the_client_has_every_verb_with_the_parameters_of_the_kubelet() -> None:
    for verb in VERBS:
        here = inspect.signature(getattr(KubeletControl, verb))
        there = inspect.signature(getattr(SimKubelet, verb))

        assert here == there, verb


def test_every_public_method_of_the_kubelet_but_until_is_a_verb() -> None:
    methods = inspect.getmembers(SimKubelet, inspect.isfunction)

    assert {name for name, _ in methods if not name.startswith("_")} - {"until"} == {*VERBS}


async def test_pods_and_states_arrive_as_they_are_in_the_kubelet() -> None:
    async with controlled() as (kubelet, control), TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.register()
        await control.registered(RESOURCE)
        await control.allocatable(RESOURCE, equals=4)
        await control.capacity(RESOURCE, equals=4)
        spec = pod("a", 2, init_containers=(ContainerSpec(name="i", env={"A": "1"}),))
        status = await control.admit(spec)

        assert status == kubelet.state().pod("uid-a")
        assert await control.state() == kubelet.state()
        assert await control.pod_in_phase("uid-a", Phase.RUNNING) == status


async def test_every_other_verb_does_there_what_it_does_here() -> None:
    async with controlled() as (kubelet, control), TinyPlugin(kubelet, devices(4)) as plugin:
        await plugin.come_up()
        await control.admit(pod("a", 1))
        again = await control.restart_container("uid-a", "main")
        ended = await control.finish_pod("uid-a", Phase.FAILED)
        await control.delete_pod("uid-a")
        version = kubelet.state().version
        await control.drop_stream(RESOURCE)
        newer = await control.newer_state(version)
        await control.set_faults(Faults(pod_resources_absent=True))
        await control.stop()
        stopped = not kubelet.state().running
        await control.start()
        await control.restart(gap_seconds=0.01, wipe_delay_seconds=0.01)
        await control.reboot()

        assert (again.restarts, ended.phase) == (1, Phase.FAILED)
        assert newer.version > version
        assert stopped
        assert (await control.state()).running
        assert (await control.state()).pods == ()
        assert not kubelet.settings.pod_resources_socket.exists()


async def test_calls_of_one_client_run_side_by_side() -> None:
    async with controlled() as (_, control):
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(
                control.pod_in_phase("uid-a", Phase.RUNNING), name="wait for a"
            )
            await asyncio.sleep(0.02)
            await control.admit(pod("a"))

        assert waiting.result().uid == "uid-a"


async def test_an_error_there_is_the_same_error_here() -> None:
    async with controlled() as (_, control):
        with pytest.raises(UnknownPodError, match="there is no pod uid-x"):
            await control.delete_pod("uid-x")
        with pytest.raises(WaitExpiredError, match="registered 0 times"):
            await control.registered(RESOURCE, timeout_seconds=0.01)
        await control.stop()
        with pytest.raises(KubeletStoppedError):
            await control.admit(pod("a"))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "expected an object with a verb of start, stop"),
        ('{"verb": "__init__"}', "expected an object with a verb of start, stop"),
        ('{"verb": "stop", "now": true}', "stop has no now"),
        ('{"verb": "delete_pod"}', "missing a required argument: 'uid'"),
        ('{"verb": "delete_pod", "uid": 1}', "uid: expected <class 'str'>, found 1"),
        ('{"verb": "admit", "pod": {"x": 1}}', "pod: no such fields in PodSpec: x"),
        ('{"verb": "admit", "pod": {"name": "a"}}', "missing 2 required keyword-only arguments"),
        ('{"verb": "finish_pod", "uid": "a", "phase": "Gone"}', "'Gone' is not a valid Phase"),
    ],
)
async def test_a_request_that_makes_no_sense_is_answered_with_what_is_wrong(
    line: str, text: str
) -> None:
    async with controlled() as (kubelet, _):
        reply = await raw_reply(kubelet, line)

    assert reply["error"].endswith("Error")
    assert text in reply["text"]


async def test_a_client_that_goes_away_harms_nobody() -> None:
    async with controlled() as (kubelet, control):
        path = kubelet.settings.plugin_dir.parent / "control.sock"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b'{"verb": "newer_state", "than": 99999}\n')
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await control.newer_state(99999)

        assert (await control.state()).running


# --------------------------------------------------------------------------- the process


@asynccontextmanager
async def process(
    settings: KubeletSettings, control_socket: Path, *more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpushare_plugin.sim.kubelet",
        "--plugin-dir",
        str(settings.plugin_dir),
        "--pod-resources-socket",
        str(settings.pod_resources_socket),
        "--control-socket",
        str(control_socket),
        *more,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def test_a_process_of_its_own_says_that_it_is_up_and_ends_cleanly_on_sigterm() -> None:
    with short_folder() as folder:
        settings = settings_in(folder)
        async with process(settings, folder / "c.sock", "--topology-manager") as child:
            assert child.stdout is not None
            line = await child.stdout.readline()
            control = KubeletControl(folder / "c.sock")
            status = await control.admit(pod("a"))
            child.terminate()
            _, errors = await child.communicate()

        assert line == b"the simulated kubelet is up\n"
        assert status.phase is Phase.RUNNING
        assert (child.returncode, errors) == (0, b"")
        assert (settings.plugin_dir / "kubelet.sock").exists()


async def test_a_killed_process_started_again_wipes_the_folder_and_knows_the_devices() -> None:
    with short_folder() as folder:
        settings, control = settings_in(folder), KubeletControl(folder / "c.sock")
        plugin = TinyPlugin(SimKubelet(settings), devices(4))
        async with process(settings, folder / "c.sock") as child:
            await control.ready()
            async with plugin:
                await plugin.register()
                await control.allocatable(RESOURCE, equals=4)
                await control.admit(pod("a", 1))
                os.kill(child.pid, signal.SIGKILL)
                await child.wait()
                await asyncio.wait_for(plugin.stream_ended.wait(), 1)
                async with process(settings, folder / "c.sock"):
                    await control.ready()
                    state = await control.state()

        resource = state.resources[RESOURCE]
        assert (resource.capacity, resource.allocatable) == (0, 0)
        assert len(resource.allocated) == 1
        assert state.pods == ()


async def test_waiting_for_a_process_that_never_comes_up_expires() -> None:
    nobody = pytest.raises(WaitExpiredError, match="nobody serves the control socket")
    with short_folder() as folder, nobody:
        await KubeletControl(folder / "c.sock").ready(timeout_seconds=0.05)


# ------------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    path: Path
    shape: PodResourcesShape
    seconds: float
    maybe: int | None
    words: tuple[str, ...] = field(default=())


def test_a_value_comes_back_equal() -> None:
    sample = Sample(
        path=Path("a/b"), shape=PodResourcesShape.GROUPED, seconds=1, maybe=None, words=("x", "y")
    )

    assert decode(Sample, json.loads(json.dumps(encode(sample)))) == sample


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"seconds": "1"}, "value.seconds: expected <class 'float'>, found '1'"),
        ({"seconds": True}, "value.seconds: expected <class 'float'>, found True"),
        ({"maybe": "x"}, "value.maybe: expected <class 'int'>, found 'x'"),
        ({"words": [1]}, r"value.words\[0\]: expected <class 'str'>, found 1"),
    ],
)
def test_a_value_that_does_not_fit_names_where(changes: dict[str, object], text: str) -> None:
    fitting = {"path": "p", "shape": "grouped", "seconds": 1, "maybe": 3, "words": ["x"]}
    with pytest.raises(ValueError, match=text):
        decode(Sample, fitting | changes)
