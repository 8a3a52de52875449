"""The daemon as a process: how it ends, reads its configuration again, and follows another."""

import asyncio
import signal
from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import Faults, Phase
from tests.e2e.processes import RESOURCE, daemon, kubelet, node_arguments, pod, ready
from tests.node.plugin_client import ids, plugin_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_is_orderly(short_path: Path, number: signal.Signals) -> None:
    async with kubelet(short_path) as driven, daemon(node_arguments(short_path)) as node:
        await ready(driven)
        assert len(_sockets(short_path)) == 1

        node.send(number)
        code = await node.exit_code()

        assert code == 0
        assert _sockets(short_path) == []
    assert node.of("stopped")
    assert "Traceback" not in "\n".join(node.lines)


async def test_a_stop_writes_nothing_that_looks_like_an_error(short_path: Path) -> None:
    async with kubelet(short_path) as driven, daemon(node_arguments(short_path)) as node:
        await ready(driven)
        before = len(node.lines)

        await node.stop()

    assert [line for line in node.lines[before:] if " info " not in line] == []


async def test_a_stop_during_an_allocate_lets_it_answer(short_path: Path) -> None:
    async with kubelet(short_path) as driven, daemon(node_arguments(short_path)) as node:
        await ready(driven)
        [socket] = _sockets(short_path)
        async with plugin_at(socket) as plugin:
            # Its log lines fill the pipe, so it is still under way when we read the first.
            call = asyncio.create_task(
                plugin.allocate(*[ids("6f0c3a52", n % 15) for n in range(1000)]), name="the call"
            )
            await node.said("allocated")
            node.send(signal.SIGTERM)

            answers = await call

        assert await node.exit_code() == 0
    assert len(answers) == 1000


async def test_a_stop_while_it_waits_for_the_driver(short_path: Path) -> None:
    (short_path / "events").write_text("init error=9\n", encoding="utf-8")
    async with daemon(node_arguments(short_path)) as node:
        await node.said("nvml_unavailable")

        assert await node.stop() == 0


async def test_a_stop_while_it_waits_for_the_folder(short_path: Path) -> None:
    async with daemon(node_arguments(short_path)) as node:
        await node.said("plugin_folder_unavailable")

        assert await node.stop() == 0


async def test_sighup_takes_a_changed_configuration(short_path: Path) -> None:
    file = short_path / "config.yaml"
    file.write_text("memory-unit: GiB\n", encoding="utf-8")
    arguments = node_arguments(short_path, "--config", str(file))
    async with kubelet(short_path) as driven, daemon(arguments) as node:
        await ready(driven, units=30)

        file.write_text("memory-unit: 2GiB\n", encoding="utf-8")
        node.send(signal.SIGHUP)
        await ready(driven, units=14, registrations=2)

        assert len(_sockets(short_path)) == 1
        assert await node.stop() == 0
    assert [line["memory-unit"] for line in node.of("configuration")] == ["GiB", "2GiB"]


async def test_sighup_without_a_change_disturbs_nothing_and_takes_the_log_level(
    short_path: Path,
) -> None:
    file = short_path / "config.yaml"
    file.write_text("memory-unit: GiB\n", encoding="utf-8")
    arguments = node_arguments(short_path, "--config", str(file))
    async with kubelet(short_path) as driven, daemon(arguments) as node:
        await ready(driven)

        file.write_text("memory-unit: GiB\nlog-level: debug\n", encoding="utf-8")
        node.send(signal.SIGHUP)
        line = await node.said("configuration_unchanged")
        status = await driven.admit(pod("a", 4))
        await node.said("proposed")

        assert (line["log_level"], status.phase) == ("debug", Phase.RUNNING)
        assert len((await driven.state()).registrations) == 1


async def test_b133_sighup_leaves_a_wrong_configuration_alone(short_path: Path) -> None:
    file = short_path / "config.yaml"
    file.write_text("memory-unit: GiB\n", encoding="utf-8")
    arguments = node_arguments(short_path, "--config", str(file))
    async with kubelet(short_path) as driven, daemon(arguments) as node:
        await ready(driven)
        for times, text in enumerate(("memory-unit: GB\n", "{", "no-such-key: 1\n"), start=1):
            file.write_text(text, encoding="utf-8")
            node.send(signal.SIGHUP)
            line = await node.said("configuration_refused", times=times)
            assert str(file) in line["error"]

        status = await driven.admit(pod("a", 4))

        assert status.phase is Phase.RUNNING
        assert len((await driven.state()).registrations) == 1


async def test_b133_sighup_goes_back_from_a_configuration_that_does_not_work_here(
    short_path: Path,
) -> None:
    file = short_path / "config.yaml"
    file.write_text("isolation: auto\n", encoding="utf-8")
    arguments = node_arguments(short_path, "--config", str(file))
    async with kubelet(short_path) as driven, daemon(arguments) as node:
        await ready(driven)

        file.write_text("isolation: driver\n", encoding="utf-8")
        node.send(signal.SIGHUP)
        line = await node.said("configuration_does_not_work")
        await ready(driven, registrations=2)

        # And it listens on: the next one is taken.
        file.write_text("memory-unit: 5GiB\n", encoding="utf-8")
        node.send(signal.SIGHUP)
        await ready(driven, units=6, registrations=3)

    assert "isolation driver: the driver is 570.124.06" in line["error"]


async def test_b133_sighup_goes_back_from_a_name_that_the_kubelet_refuses(short_path: Path) -> None:
    file = short_path / "config.yaml"
    file.write_text("policy: binpack\n", encoding="utf-8")
    arguments = node_arguments(short_path, "--config", str(file))
    async with kubelet(short_path) as driven, daemon(arguments) as node:
        await ready(driven)
        refusal = 'the ResourceName "example.com/vram" is invalid'
        await driven.set_faults(Faults(refuse_registrations=1, refuse_text=refusal))

        file.write_text("resource-name: example.com/vram\n", encoding="utf-8")
        node.send(signal.SIGHUP)
        line = await node.said("configuration_does_not_work")

        await ready(driven, registrations=2)
    assert refusal in line["error"]


async def test_a_second_instance_waits_and_takes_over_when_the_first_is_killed(
    short_path: Path,
) -> None:
    arguments = node_arguments(short_path)
    async with kubelet(short_path) as driven, daemon(arguments) as first:
        await ready(driven)
        async with daemon(arguments) as second:
            line = await second.said("plugin_folder_unavailable")
            assert "another instance serves this resource" in await second.page("/readyz")
            assert len((await driven.state()).registrations) == 1

            first.send(signal.SIGKILL)
            await ready(driven, registrations=2)

            assert await second.said("dead_socket_removed")
            assert len(_sockets(short_path)) == 1
    assert line["error"] == "another instance serves this resource"


async def test_a_killed_daemon_comes_back_with_the_same_ids_and_leaves_pods_alone(
    short_path: Path,
) -> None:
    arguments = node_arguments(short_path)
    async with kubelet(short_path) as driven:
        async with daemon(arguments) as node:
            await ready(driven)
            before = await driven.admit(pod("a", 10))
            devices = set((await driven.state()).resources[RESOURCE].health)
            node.send(signal.SIGKILL)
            await node.exit_code()
            await driven.allocatable(RESOURCE, equals=0)

        async with daemon(arguments):
            await ready(driven, registrations=2)
            state = await driven.state()
            after = await driven.admit(pod("b", 10))

    assert set(state.resources[RESOURCE].health) == devices
    assert state.pod("uid-a") == before
    first, second = before.container("c0").env, after.container("c0").env
    assert first["ALIYUN_COM_GPU_MEM_IDX"] != second["ALIYUN_COM_GPU_MEM_IDX"]


async def test_b21_a_daemon_that_stands_still_does_not_answer_its_liveness_probe(
    short_path: Path,
) -> None:
    async with kubelet(short_path) as driven, daemon(node_arguments(short_path)) as node:
        await ready(driven)
        assert "200 OK" in await node.page("/healthz")

        node.send(signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await node.page("/healthz")
        node.send(signal.SIGCONT)

        assert "200 OK" in await node.page("/healthz")


def _sockets(folder: Path) -> list[Path]:
    return sorted((folder / "plugins").glob("aliyungpushare-*.sock"))
