"""Where we differ from the original on purpose: each test says why.

A vector here is what the original answered; the assertion is what we answer instead.
"""

from pathlib import Path

import grpc
import pytest

from gpushare_plugin.errors import ConfigError
from tests.golden.vectors import ORIGINAL, TAGS, ours_on, uuid, vector
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, Machine, config_in, node_in, profile_in
from tests.node.plugin_client import ids


async def test_golden_cards_of_different_sizes_have_each_its_own_units(
    short_path: Path, log: EventLog
) -> None:
    """The original takes the first card's size for every card, so 8 GiB lay idle here."""
    original = vector("devices", "P1")
    async with ours_on(original, short_path, log, units=15 + 23) as ours:
        assert len(ours.node.resource.health) == 38 > original["count"]


async def test_golden_a_card_below_one_unit_is_left_out_with_a_reason(
    short_path: Path, log: EventLog
) -> None:
    """The original counts it in gpu-count and in the indices, though nobody can use it."""
    original = vector("devices", "Q7")
    async with ours_on(original, short_path, log, units=original["count"]) as ours:
        [answer] = await ours.plugin.allocate(ids(TAGS[1], 0))

    assert answer.envs["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    [line] = log.of("gpu_left_out")
    assert line["reason"] == "its 800 MiB do not hold one unit of GiB"


def test_golden_a_unit_that_is_none_is_refused(short_path: Path) -> None:
    """The original took it for GiB with a warning: a wrong unit is a wrong size for every pod."""
    original = vector("devices", "Q6")

    with pytest.raises(ConfigError, match="found 'GB', expected GiB, MiB"):
        config_in(short_path, memory_unit=original["unit"])


async def test_golden_the_options_ask_for_preferred_allocation(
    short_path: Path, log: EventLog
) -> None:
    """The original never sees which units a container gets, so it cannot keep to one card."""
    original = vector("behaviour", "P1", "GetPreferredAllocation")
    async with ours_on(vector("devices", "Q6"), short_path, log, units=15) as ours:
        chosen = await ours.plugin.preferred(available=ids(TAGS[0], 3), size=1)
        [record] = ours.node.kubelet.state().registrations

    assert (original["answer"], ORIGINAL["registration"]["options"]) == ("UNIMPLEMENTED", "")
    assert chosen == ids(TAGS[0], 3)
    assert record.get_preferred_allocation_available


async def test_golden_without_an_extender_a_container_gets_the_card_of_its_ids(
    short_path: Path, log: EventLog
) -> None:
    """The original answered OK with a card that does not exist, and the container died of it."""
    original = vector("allocation", "P2")
    async with ours_on(original, short_path, log, units=38) as ours:
        [answer] = await ours.plugin.allocate(ids(TAGS[1], 0, 1, 2))

    assert original["env"]["NVIDIA_VISIBLE_DEVICES"] == "no-gpu-has-3GiB-to-run"
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == uuid(1)
    assert answer.envs["ALIYUN_COM_GPU_MEM_IDX"] == "1"


async def test_golden_what_cannot_be_served_is_an_error_and_no_broken_environment(
    short_path: Path, log: EventLog
) -> None:
    """A pod that is refused says why; one that starts on "no-gpu-has" says nothing."""
    original = vector("allocation", "P2")
    async with ours_on(original, short_path, log, units=38) as ours:
        code, text = await ours.plugin.refusal([*ids(TAGS[0], 0, 1), *ids(TAGS[1], 0)])

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "3 units got 2 of card 0, 1 of card 1" in text


async def test_golden_an_empty_request_is_an_error(short_path: Path, log: EventLog) -> None:
    """As above: the original answered OK with "no-gpu-has-0GiB-to-run"."""
    original = vector("allocation", "P9")
    async with ours_on(original, short_path, log, units=38) as ours:
        code, _ = await ours.plugin.refusal([])

    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_golden_pod_units_are_the_containers_while_the_pod_is_not_known(
    short_path: Path, log: EventLog
) -> None:
    """The original adds up one call's containers; the kubelet sends one container a call."""
    original = vector("allocation", "P5b")
    async with ours_on(original, short_path, log, units=30, uniform_cards="on") as ours:
        first, second = await ours.plugin.allocate(ids(TAGS[0], 0), ids(TAGS[0], 1, 2))

    assert original["env"]["ALIYUN_COM_GPU_MEM_POD"] == "3"
    assert first.envs["ALIYUN_COM_GPU_MEM_POD"] == "1"
    assert second.envs["ALIYUN_COM_GPU_MEM_POD"] == "2"


@pytest.mark.parametrize("name", ["Q2", "Q3"])
async def test_golden_idx_is_the_card_index_and_not_the_minor_number(
    short_path: Path, log: EventLog, name: str
) -> None:
    """Minor numbers have gaps and another order than NVML: IDX 0 was the other card here."""
    original = vector("allocation", name)
    count = len(original["cards_mib"])
    async with ours_on(original, short_path, log, units=15 * count) as ours:
        [answer] = await ours.plugin.allocate(ids(TAGS[original["card"]], 0, 1, 2))

    minor = original["minors"][original["card"]]
    assert original["env"]["ALIYUN_COM_GPU_MEM_IDX"] == str(minor)
    assert answer.envs["ALIYUN_COM_GPU_MEM_IDX"] == str(original["card"])


@pytest.mark.parametrize("name", ["P3", "P4"])
async def test_golden_by_default_the_card_is_named_by_uuid(
    short_path: Path, log: EventLog, name: str
) -> None:
    """An index means another card after a reboot or a lost card; a UUID never does."""
    original = vector("allocation", name)
    async with ours_on(original, short_path, log, units=30, uniform_cards="on") as ours:
        [answer] = await ours.plugin.allocate(ids(TAGS[original["card"]], 0, 1, 2))

    differs = {"NVIDIA_VISIBLE_DEVICES": uuid(original["card"])}
    assert dict(answer.envs) == original["env"] | differs


async def test_golden_our_own_socket_deleted_is_noticed(short_path: Path, log: EventLog) -> None:
    """The original stays up, believes it is registered, and gets no call any more."""
    original = vector("behaviour", "P12")
    async with ours_on(vector("devices", "Q6"), short_path, log, units=15) as ours:
        ours.node.socket().unlink()

        await ours.node.kubelet.registered(RESOURCE, count=2)
    assert original["answer"] == "False"


async def test_golden_an_xid_is_one_message_and_not_one_for_each_unit(
    short_path: Path, log: EventLog
) -> None:
    """A card of 80 units would be 80 messages of the whole list in a row."""
    original = vector("behaviour", "Q9", "XID 31")
    async with ours_on({"cards_mib": [4096, 4096]}, short_path, log, units=8) as ours:
        ours.node.gpus.xid(0, 31)
        ours.node.gpus.xid(1, 79)
        await ours.node.kubelet.allocatable(RESOURCE, equals=4)
        [stream] = ours.node.kubelet.state().streams

    assert stream.messages == 2 < int(original["answer"])


async def test_golden_an_event_of_no_card_asks_the_cards(short_path: Path, log: EventLog) -> None:
    """The original takes the whole node out, for ever, for what one card had."""
    original = vector("behaviour", "Q9", "of no card")
    async with ours_on({"cards_mib": [4096, 4096]}, short_path, log, units=8) as ours:
        ours.node.gpus.xid(None, 48)
        await log.said("gpu_event")
        ours.node.gpus.xid(1, 79)
        await ours.node.kubelet.allocatable(RESOURCE, equals=4)

    assert original["answer"] == "Unhealthy"
    assert [line["card"] for line in log.of("card_unhealthy")] == ["1"]


async def test_golden_a_card_that_tells_no_events_is_not_unhealthy(
    short_path: Path, log: EventLog
) -> None:
    """Not supported is not broken: such a card can be used, and is asked every 30 s instead."""
    original = vector("behaviour", "Q9b")
    profile = profile_in(
        short_path, f'gpu uuid={uuid(0)} name="K80" total_mib=4096 events=unsupported'
    )
    async with node_in(short_path, log, simulate=profile) as node:
        await node.ready(units=4)
        await log.said("card_unwatched")

    assert original["answer"] == "Unhealthy"


async def test_golden_a_kubelet_that_is_absent_at_the_start_is_waited_for(
    short_path: Path, log: EventLog
) -> None:
    """The original ends with 2, and its pod is in CrashLoopBackOff for minutes then."""
    original = vector("behaviour", "Q13")
    (short_path / "plugins").mkdir()
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await log.said("not_registered")

        await node.kubelet.start()
        await node.ready()
    assert original["answer"] == "2"
