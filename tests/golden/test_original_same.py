"""Where we answer as the original does, letter by letter."""

from pathlib import Path

import pytest

from tests.e2e.processes import daemon, kubelet, node_arguments, ready
from tests.golden.vectors import ORIGINAL, TAGS, Ours, ours_on, vector
from tests.node.event_log import EventLog
from tests.node.nodes import node_in, profile_in
from tests.node.plugin_client import ids, read


async def test_golden_registration_names_the_same_version_and_resource(
    short_path: Path, log: EventLog
) -> None:
    original = ORIGINAL["registration"]
    async with ours_on(vector("devices", "Q6"), short_path, log, units=15) as ours:
        [record] = ours.node.kubelet.state().registrations

    assert record.version == original["version"]
    assert record.resource == original["resource_name"]
    # A name of its own for each start, behind the original's: two starts never share a socket.
    assert record.endpoint.startswith(original["endpoint"].removesuffix(".sock"))


@pytest.mark.parametrize("name", ["P1", "P10"])
async def test_golden_device_counts_are_the_same_with_uniform_cards(
    short_path: Path, log: EventLog, name: str
) -> None:
    original = vector("devices", name)
    async with ours_on(
        original, short_path, log, units=original["count"], uniform_cards="on", units_from="total"
    ) as ours:
        if "after" in original:
            await ours.node.kubelet.restart()
            await ours.node.ready(units=original["count"], registrations=2)

        assert len(ours.node.resource.health) == original["count"] == 30


async def test_golden_device_counts_of_equal_cards_are_the_same(
    short_path: Path, log: EventLog
) -> None:
    # The design's own figure: 16160 MiB are 15 units, as a T4's 15360 are.
    equal = {"cards_mib": [16160, 16160]}
    async with ours_on(equal, short_path, log, units=30):
        pass


@pytest.mark.parametrize("name", ["Q4", "Q5"])
async def test_golden_device_counts_in_mib_are_the_same(
    short_path: Path, log: EventLog, name: str
) -> None:
    original = vector("devices", name)
    async with ours_on(
        original, short_path, log, units=original["count"], memory_unit=original["unit"]
    ) as ours:
        [stream] = ours.node.kubelet.state().streams

    # Shorter IDs: Q5's list was too large for the original's kubelet, ours is not.
    assert stream.last_bytes < original["size_bytes"]
    assert stream.last_bytes < 4 << 20


async def test_golden_devices_come_card_by_card_counted_from_0(
    short_path: Path, log: EventLog
) -> None:
    original = vector("devices", "P1")
    async with ours_on(original, short_path, log, units=30, uniform_cards="on") as ours:
        message = await read(ours.plugin.list_and_watch())

    listed = [device.ID for device in message.devices]
    # IDX of the card by its UUID: the first eight digits of it stand for the whole.
    assert listed[0] == f"{TAGS[0]}-0"
    assert listed[-1] == f"{TAGS[1]}-14"
    assert any(d.HasField("topology") for d in message.devices) is original["topology"]


@pytest.mark.parametrize("name", ["P3", "P4", "P8", "Q1", "Q8"])
async def test_golden_environments_are_the_same(short_path: Path, log: EventLog, name: str) -> None:
    original = vector("allocation", name)
    several = len(original["cards_mib"]) > 1
    # The original names the index where an extender chose the card, else the UUID.
    settings = {"visible_devices": "index" if several else "uuid"}
    if original.get("cgpu_label"):
        settings["cgpu_disable"] = "on"
    units = 15 * len(original["cards_mib"])
    async with ours_on(
        original, short_path, log, units=units, uniform_cards="on", **settings
    ) as ours:
        assert await _environment(ours, original["card"], original["units"]) == original["env"]


async def test_golden_pre_start_container_is_an_empty_answer(
    short_path: Path, log: EventLog
) -> None:
    original = vector("behaviour", "P1", "PreStartContainer")
    async with ours_on(vector("devices", "Q6"), short_path, log, units=15) as ours:
        answer = await ours.plugin.pre_start(ids(TAGS[0], 0))

    assert answer.SerializeToString() == original["answer"].encode()


async def test_golden_with_health_off_an_xid_is_passed_over(
    short_path: Path, log: EventLog
) -> None:
    original = vector("behaviour", "Q10")
    async with ours_on({"cards_mib": [4096, 4096]}, short_path, log, units=8, health="off") as ours:
        ours.node.gpus.xid(1, 79)
        await ours.node.kubelet.restart()
        await ours.node.ready(units=8, registrations=2)

        messages = [stream.messages for stream in ours.node.kubelet.state().streams]

    assert messages == [int(original["answer"])] * 2


async def test_golden_without_cards_it_runs_and_registers_nothing(
    short_path: Path, log: EventLog
) -> None:
    original = vector("behaviour", "Q12")
    async with node_in(short_path, log, simulate=profile_in(short_path, "")) as node:
        await log.said("nvml_unavailable")

        ended = None if not node.running.done() else node.running.result()
        assert f"{ended} {node.registrations()}" == original["answer"]


@pytest.mark.e2e
@pytest.mark.timeout(60)
async def test_golden_a_stop_exits_with_the_same_code_and_takes_the_socket_away(
    short_path: Path,
) -> None:
    original = vector("behaviour", "P13")
    async with kubelet(short_path) as driven, daemon(node_arguments(short_path)) as node:
        await ready(driven)
        [socket] = (short_path / "plugins").glob("aliyungpushare-*.sock")

        code = await node.stop()

        assert f"{code} {socket.exists()}" == original["answer"]


async def _environment(ours: Ours, card: int, units: int) -> dict[str, str]:
    [answer] = await ours.plugin.allocate(ids(TAGS[card], *range(units)))
    return dict(answer.envs)
