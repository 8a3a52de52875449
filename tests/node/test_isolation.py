"""What keeps a container inside its share: the best that works here, and said honestly."""

import json
from pathlib import Path

import pytest

from gpushare_plugin.adapters import host
from gpushare_plugin.errors import ConfigError
from gpushare_plugin.sim.kubelet import ContainerStatus
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, SECOND, config_in, daemon_running, node_in, pod, profile_in

NEW_DRIVER = f"""\
system driver=615.36.02 cuda=13040
gpu uuid={FIRST} name="Tesla T4" total_mib=15360 reserved_mib=449 minor=0
gpu uuid={SECOND} name="Tesla T4" total_mib=15360 reserved_mib=449 minor=1
"""
LIMITS = ("NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT")


@pytest.fixture
def cgroup_v2(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has control groups of version 2, whatever machine the tests run on."""
    monkeypatch.setattr(host, "has_cgroup_v2", lambda: True)


def _host(folder: Path, *, hooked: tuple[str, ...] = (FIRST, SECOND)) -> dict[str, str]:
    """A node with the new driver, and a CDI spec whose devices carry the toolkit's hook."""
    hook = {
        "hookName": "createContainer",
        "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "apply-cuda-memory-limits"],
    }
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": n, "containerEdits": {"hooks": [hook]}} for n in hooked],
    }
    cdi = folder / "cdi"
    cdi.mkdir()
    (cdi / "nvidia.json").write_text(json.dumps(spec), encoding="utf-8")
    return {"simulate": profile_in(folder, NEW_DRIVER), "cdi_dirs": str(cdi)}


async def _container_of(
    folder: Path, log: EventLog, units: int, settings: dict[str, str]
) -> ContainerStatus:
    async with node_in(folder, log, **settings) as node:
        await node.ready()
        status = await node.kubelet.admit(pod("a", units))
        return status.container("c0")


@pytest.mark.usefixtures("cgroup_v2")
@pytest.mark.parametrize("choice", ["auto", "driver"])
async def test_the_driver_keeps_the_limit_where_it_can(
    short_path: Path, log: EventLog, choice: str
) -> None:
    settings = _host(short_path) | {"isolation": choice}

    container = await _container_of(short_path, log, 4, settings)

    assert [container.env[name] for name in LIMITS] == ["4096", "4096"]
    assert container.cdi_devices == (f"nvidia.com/gpu={FIRST}",)
    assert container.env["NVIDIA_VISIBLE_DEVICES"] == FIRST
    [said] = log.of("isolation")
    assert (said["isolation"], said["enforced"]) == ("driver", "True")


@pytest.mark.usefixtures("cgroup_v2")
async def test_a_lost_card_that_no_spec_names_takes_the_limits_from_no_other(
    short_path: Path, log: EventLog
) -> None:
    settings = _host(short_path, hooked=(SECOND,)) | {"isolation": "driver"}
    both = settings["simulate"]
    async with node_in(short_path, log, simulate=both):
        await log.said("card_record_written")
    [system, _, second] = NEW_DRIVER.splitlines(keepends=True)
    settings["simulate"] = profile_in(short_path, system + second)

    async with node_in(short_path, log, **settings) as node:
        await node.ready(units=15)
        status = await node.kubelet.admit(pod("a", 4))

    assert status.container("c0").cdi_devices == (f"nvidia.com/gpu={SECOND}",)


@pytest.mark.usefixtures("cgroup_v2")
async def test_a_whole_cards_limit_is_what_the_card_can_really_give(
    short_path: Path, log: EventLog
) -> None:
    container = await _container_of(short_path, log, 15, _host(short_path))

    assert [container.env[name] for name in LIMITS] == [str(15360 - 449)] * 2


@pytest.mark.usefixtures("cgroup_v2")
async def test_with_cdi_injection_the_card_is_named_once(short_path: Path, log: EventLog) -> None:
    settings = _host(short_path) | {"device_injection": "cdi"}

    container = await _container_of(short_path, log, 4, settings)

    assert container.cdi_devices == (f"nvidia.com/gpu={FIRST}",)


@pytest.mark.usefixtures("cgroup_v2")
async def test_one_card_without_the_hook_and_the_node_enforces_nothing(
    short_path: Path, log: EventLog
) -> None:
    container = await _container_of(short_path, log, 4, _host(short_path, hooked=(FIRST,)))

    assert not set(LIMITS) & set(container.env)
    [said] = log.of("isolation")
    assert said["isolation"] == "none"
    assert SECOND in said["reason"]


@pytest.mark.usefixtures("cgroup_v2")
async def test_none_is_none_though_the_driver_could(short_path: Path, log: EventLog) -> None:
    container = await _container_of(short_path, log, 4, _host(short_path) | {"isolation": "none"})

    assert not set(LIMITS) & set(container.env)
    assert container.cdi_devices == ()


async def test_auto_on_an_old_driver_is_none_and_says_why(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()

        shown = await node.metric("gpushare_isolation_info", isolation="none", enforced="false")

    assert shown == 1
    [said] = log.of("isolation")
    assert said["reason"] == "driver isolation: the driver is 570.124.06"


async def test_isolation_that_cannot_work_stops_the_start_and_says_what_was_expected(
    short_path: Path, log: EventLog
) -> None:
    config = config_in(short_path, isolation="driver")

    with pytest.raises(ExceptionGroup) as raised:
        async with daemon_running(config) as running:
            await running

    [cause] = raised.value.exceptions
    assert isinstance(cause, ConfigError)
    assert "the driver is 570.124.06; expected driver 615 or later" in str(cause)
