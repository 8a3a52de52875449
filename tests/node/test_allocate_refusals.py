"""What Allocate refuses: with the request, the cards, the cause and the cure, never an OK."""

from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from grpc import aio

from gpushare_plugin.sim.kubelet import Phase
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, SECOND_TAG, node_in, pod
from tests.node.plugin_client import SECONDS, ids, plugin_at

INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def test_b53_ids_of_two_cards_are_refused_with_units_cards_cause_and_cure(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            code, text = await plugin.refusal([*ids(FIRST_TAG, 0, 1), *ids(SECOND_TAG, 0)])

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert text == (
        "gpushare: a container of 3 units got 2 of card 0, 1 of card 1: no card of this node had"
        " 3 units free, and a container is served by one card. Ask for fewer units, free a card,"
        " or place pods with the gpushare extender, which knows the cards before a pod is bound"
    )


async def test_b53_a_user_reads_the_cause_in_the_status_of_the_pod(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        for name in ("a", "b"):
            await node.kubelet.admit(pod(name, 10))

        status = await node.kubelet.admit(pod("too-large", 8))

    assert (status.phase, status.reason) == (Phase.FAILED, "UnexpectedAdmissionError")
    assert "a container of 8 units got 5 of card 0, 3 of card 1" in status.message
    assert "no-gpu-has" not in status.message


@pytest.mark.parametrize(
    ("device_ids", "part"),
    [
        pytest.param(["ffffffff-0"], "is of no card of this node", id="of no card"),
        pytest.param([f"{FIRST_TAG}-15"], "card 0 has 15 units, 0 to 14", id="of no unit"),
        pytest.param(
            [f"{FIRST}-_-3"], "of the original gpushare's plugin, which served this node", id="old"
        ),
        pytest.param(["junk"], "expected eight hex digits, a dash and a number", id="malformed"),
        pytest.param([""], "expected eight hex digits, a dash and a number", id="empty"),
        pytest.param([f"{FIRST_TAG}-01"], "expected eight hex digits", id="leading zero"),
        pytest.param([f"{FIRST_TAG}-0\n"], "expected eight hex digits", id="line end"),
        pytest.param([f"{FIRST_TAG}-0", "x" * 5000], "expected eight hex digits", id="long"),
        pytest.param([f"{FIRST_TAG}-0"] * 2, "2 device IDs, of which 1 differ", id="twice"),
        pytest.param([], "a container of no devices", id="no devices"),
    ],
)
async def test_ids_that_are_not_of_this_node_are_refused_with_what_was_expected(
    short_path: Path, log: EventLog, device_ids: Sequence[str], part: str
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            code, text = await plugin.refusal(device_ids)

    assert code is INVALID
    assert part in text
    assert len(text) < 500


async def test_a_call_without_containers_is_refused(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            refused = await plugin.refusal()

    assert refused == (INVALID, "gpushare: no container in the request")


async def test_one_bad_container_of_a_call_refuses_all_of_it(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            code, _ = await plugin.refusal(ids(FIRST_TAG, 0), ["ffffffff-0"], ids(FIRST_TAG, 1))

    assert code is INVALID


async def test_units_of_an_unhealthy_card_are_refused_with_its_reason(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        node.gpus.xid(0, 79)
        await node.ready(units=15)
        async with plugin_at(node.socket()) as plugin:
            code, text = await plugin.refusal(ids(FIRST_TAG, 0))
            [neighbour] = await plugin.allocate(ids(SECOND_TAG, 0))

    assert code is grpc.StatusCode.UNAVAILABLE
    assert f"card 0 ({FIRST}) is unhealthy: XID 79" in text
    assert "made anew" in text
    assert neighbour.envs["ALIYUN_COM_GPU_MEM_IDX"] == "1"


async def test_a_refusal_is_one_log_line_and_one_count(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, status_address="127.0.0.1:0") as node:
        await node.ready()

        await node.kubelet.admit(pod("too-large", 16))
        counted = await node.metric("gpushare_allocate_refusals_total", cause="several_cards")

    [line] = log.of("allocate_refused")
    assert (line["level"], line["units"], line["cause"]) == ("ERROR", "16", "several_cards")
    assert counted == 1


async def test_a_call_that_is_no_message_is_an_error_and_the_next_one_is_served(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            junk: aio.UnaryUnaryMultiCallable[bytes, bytes]
            junk = plugin.channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
            with pytest.raises(aio.AioRpcError):
                await junk(b"\xff\xff\xff\xff", timeout=SECONDS)
            [answer] = await plugin.allocate(ids(FIRST_TAG, 0))

    assert answer.envs["ALIYUN_COM_GPU_MEM_IDX"] == "0"


async def test_a_method_that_is_none_of_ours_is_unimplemented(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log) as node:
        await node.ready()
        async with plugin_at(node.socket()) as plugin:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes]
            call = plugin.channel.unary_unary("/v1beta1.DevicePlugin/Deallocate")
            with pytest.raises(aio.AioRpcError) as raised:
                await call(b"", timeout=SECONDS)

    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
