"""The host changes under a daemon that runs: permissions, MIG mode, drivers, CDI specs, links."""

import json
from pathlib import Path

import pytest

from gpushare_plugin.adapters import host
from gpushare_plugin.adapters.plugin_folder import InstanceLock
from gpushare_plugin.core.sharing import LeftOut
from gpushare_plugin.errors import DriverReplaced
from gpushare_plugin.node.monitor import RESTART_SECONDS
from gpushare_plugin.ports import Reading
from gpushare_plugin.sim.kubelet import Phase
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, node_in, pod, profile_in
from tests.node.scripted_gpus import ScriptedGpus
from tests.node.waiting import eventually
from tests.node.watched import watching

NO_PERMISSION = 4
FIRST = "GPU-6f0c3a52-8d1e-4b7a-9c35-2e4f81a7d601"
HOOK = "apply-cuda-memory-limits"


@pytest.fixture
def cgroup_v2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "has_cgroup_v2", lambda: True)


async def test_a_card_that_may_not_be_asked_is_left_out_and_the_other_is_shared(
    short_path: Path, log: EventLog
) -> None:
    events = short_path / "events"
    events.write_text(f"fail call=nvmlDeviceGetHandleByIndex_v2 gpu=1 error={NO_PERMISSION}\n")
    async with node_in(short_path, log) as node:
        await node.ready(units=15)

    [line] = log.of("gpu_left_out")
    assert "no permission" in line["reason"]


async def test_a_card_that_goes_into_mig_mode_is_given_to_nobody_until_it_is_back(
    short_path: Path, log: EventLog
) -> None:
    machine = (
        f'gpu uuid={FIRST} name="A100" total_mib=15360 mig=off\n'
        'gpu uuid=GPU-bbbbbbbb-0001 name="A100" total_mib=15360 mig=off\n'
    )
    profile = profile_in(short_path, machine)
    async with node_in(short_path, log, simulate=profile) as node:
        await node.ready()

        node.gpus.mig_mode(0, on=True)
        await node.kubelet.allocatable(RESOURCE, equals=15)
        [line] = log.of("card_unhealthy")
        assert "MIG mode is on" in line["reason"]

        node.gpus.mig_mode(0, on=False)
        await node.kubelet.allocatable(RESOURCE, equals=30)


async def test_a_card_that_fails_to_answer_once_has_had_no_reset(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        node.gpus.xid(0, 48)
        await node.kubelet.allocatable(RESOURCE, equals=15)

        node.gpus.fail("nvmlDeviceGetHandleByIndex_v2", 999, gpu=0)
        await log.said("gpu_left_out")
        node.gpus.heal("nvmlDeviceGetHandleByIndex_v2")
        node.gpus.xid(1, 79)
        await node.kubelet.allocatable(RESOURCE, equals=0)
        node.gpus.lost(1)
        await log.said("gpu_left_out", times=2)
        node.gpus.back(1)
        await node.kubelet.allocatable(RESOURCE, equals=15)

    assert [line["card"] for line in log.of("card_healthy")] == ["1"]


async def test_a_card_that_was_lost_as_an_event_set_was_made_is_heard_again(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, probe_seconds="0.3") as node:
        await node.ready()
        node.gpus.lost(0)
        node.gpus.break_event_sets(15)
        await log.said("event_set_lost")
        node.gpus.mend_event_sets()
        await log.said("event_set_made_again")
        node.gpus.back(0)

        def heard() -> bool:
            node.gpus.xid(0, 79)
            return bool(log.of("gpu_event", xid="79"))

        await eventually(heard)


class Replaced(ScriptedGpus):
    """GPUs whose driver is replaced after the first look."""

    replaced = False

    def open(self) -> None:
        if self.replaced:
            raise DriverReplaced("library and driver do not fit")
        super().open()

    def read(self) -> Reading:
        if self.replaced:
            raise DriverReplaced("library and driver do not fit")
        return super().read()


async def test_a_driver_that_was_replaced_asks_for_a_restart_after_a_minute() -> None:
    gpus = Replaced(FIRST)
    async with watching(gpus, probe_seconds=0.01) as watched:
        await eventually(lambda: watched.monitor.problem is None)
        gpus.replaced = True
        await eventually(lambda: watched.monitor.problem is not None)
        at_once = watched.monitor.needs_restart

        watched.clock.ahead_seconds += RESTART_SECONDS + 1

        assert at_once is None
        assert "driver was replaced" in (watched.monitor.needs_restart or "")


@pytest.mark.usefixtures("cgroup_v2")
async def test_limits_are_kept_from_when_the_toolkit_has_written_its_spec(
    short_path: Path, log: EventLog
) -> None:
    cdi = short_path / "cdi"
    cdi.mkdir()
    machine = f'system driver=615.10 cuda=13040\ngpu uuid={FIRST} name="T4" total_mib=15360\n'
    settings = {"simulate": profile_in(short_path, machine), "cdi_dirs": str(cdi)}
    async with node_in(short_path, log, **settings) as node:
        await node.ready(units=15)
        before = await node.kubelet.admit(pod("before", 1))
        edits = {"hooks": [{"hookName": "createRuntime", "args": ["hook", HOOK]}]}
        device = {"name": FIRST, "containerEdits": edits}
        spec = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [device]}
        (cdi / "nvidia.json").write_text(json.dumps(spec), encoding="utf-8")
        await log.said("isolation", isolation="driver")
        after = await node.kubelet.admit(pod("after", 1))

    assert before.phase is after.phase is Phase.RUNNING
    assert "NVIDIA_GPU_MEMORY_LIMIT" not in before.container("c0").env
    assert after.container("c0").env["NVIDIA_GPU_MEMORY_LIMIT"] == "1024"


def test_specs_are_read_again_only_when_one_has_changed(tmp_path: Path) -> None:
    hooks = host.LimitHooks([tmp_path])
    assert hooks.cards() == frozenset()

    devices: list[dict[str, object]] = []
    spec = {"kind": "nvidia.com/gpu", "devices": devices}
    (tmp_path / "a.json").write_text(json.dumps(spec), encoding="utf-8")
    first = hooks.cards()
    edits = {"hooks": [{"args": [HOOK]}]}
    devices.append({"name": FIRST, "containerEdits": edits})
    (tmp_path / "a.json").write_text(json.dumps(spec), encoding="utf-8")

    assert (first, hooks.cards()) == (frozenset(), frozenset({FIRST}))


def test_a_lock_whose_file_was_removed_keeps_nobody_out_and_is_taken_anew(tmp_path: Path) -> None:
    first, second = InstanceLock(tmp_path, "a.com/b"), InstanceLock(tmp_path, "a.com/b")
    assert (first.take(), second.take()) == (True, False)
    [file] = tmp_path.iterdir()

    file.unlink()

    assert (second.take(), first.take()) == (True, False)
    second.release()
    assert first.take()
    first.release()


def test_only_what_names_no_card_may_be_any() -> None:
    told = [
        LeftOut(name="NVML index 1", reason="unknown"),
        LeftOut(name="NVML index 1", reason="lost", lost=True),
        LeftOut(name=FIRST, reason="MIG"),
    ]

    assert [each.may_be_any for each in told] == [True, False, False]
