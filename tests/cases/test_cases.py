"""Failures of others that have no place among the tests of one part of ours."""

import asyncio
import sys
from pathlib import Path
from random import Random

import pynvml
import pytest

from gpushare_plugin.adapters.nvml.answers import text
from gpushare_plugin.adapters.nvml.source import NvmlSource
from gpushare_plugin.errors import NvmlUnavailable
from gpushare_plugin.sim.kubelet import Phase, PodStatus, SimKubelet
from tests.node.event_log import EventLog
from tests.node.nodes import (
    FIRST,
    FIRST_TAG,
    RESOURCE,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
    pod,
    profile_in,
)
from tests.node.plugin_client import ids, plugin_at, read

FORKS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
V2 = "nvmlDeviceGetMemoryInfo_v2"
ONE_CARD = f'gpu uuid={FIRST} name="NVIDIA A100" total_mib=81920 reserved_mib=904\n'


async def test_b19_no_call_forks_however_many_come_at_once(short_path: Path, log: EventLog) -> None:
    forks: list[str] = []
    watching = True

    def audited(event: str, _: tuple[object, ...]) -> None:
        if watching and event in FORKS:
            forks.append(event)

    # An audit hook stays for the life of the process, so it is told when to stop listening.
    sys.addaudithook(audited)
    async with node_in(short_path, log, log_level="warning") as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:

            async def caller(number: int) -> None:
                stream = plugin.list_and_watch()
                await read(stream)
                for _ in range(25):
                    await plugin.allocate(ids(FIRST_TAG, number % 15))
                    await plugin.preferred(available=ids(FIRST_TAG, 0, 1), size=1)
                stream.cancel()

            await asyncio.gather(*(caller(number) for number in range(20)))
        watching = False

    assert not forks


@pytest.mark.parametrize("value", ["Tesla T4", b"Tesla T4"], ids=["text", "bytes"])
def test_b28_text_and_bytes_are_read_alike(value: str | bytes) -> None:
    assert text(value) == "Tesla T4"


def test_b28_another_package_of_the_same_module_name_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(pynvml, "nvmlDeviceGetMigMode")

    with pytest.raises(NvmlUnavailable, match="uninstall the package named pynvml"):
        NvmlSource().open()


@pytest.mark.parametrize(
    ("units_from", "v2", "units"),
    [
        pytest.param("total", "", 80, id="total"),
        pytest.param("usable", "", 79, id="usable"),
        pytest.param("total", f"missing {V2}\n", 80, id="total by v1"),
        pytest.param("usable", f"missing {V2}\n", 80, id="v1 knows no reserved part"),
        pytest.param("usable", f"fail call={V2} error=999\n", 80, id="v2 fails as on WSL"),
    ],
)
async def test_b30_the_advertised_size_is_defined_once_and_v1_is_the_fallback(
    short_path: Path, log: EventLog, units_from: str, v2: str, units: int
) -> None:
    profile = profile_in(short_path, ONE_CARD + v2)
    async with node_in(short_path, log, simulate=profile, units_from=units_from) as node:
        await node.ready(units=units)


async def test_b63_short_pods_around_a_restart_of_the_plugin_leave_every_unit_free(
    short_path: Path, log: EventLog
) -> None:
    draw = Random(63)  # noqa: S311  # the same disorder at each run
    statuses: list[PodStatus] = []
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        for life in (1, 2):
            async with daemon_running(config_in(short_path, simulate="a100-pcie-x4")):
                await kubelet.registered(RESOURCE, count=life)
                await kubelet.allocatable(RESOURCE, equals=320)
                for number in range(50):
                    name = f"p{life}-{number}"
                    statuses.append(await kubelet.admit(pod(name, draw.randint(1, 9))))
                    if draw.random() < 0.25:
                        await kubelet.delete_pod(f"uid-{name}")
                    else:
                        await kubelet.finish_pod(f"uid-{name}", Phase.SUCCEEDED)
                # What a pod has given back is free at the next admission.
                statuses.append(await kubelet.admit(pod(f"last-{life}", 40)))
                await kubelet.delete_pod(f"uid-last-{life}")

    assert {status.phase for status in statuses} == {Phase.RUNNING}
