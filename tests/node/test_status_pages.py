"""/metrics, /healthz and /readyz: alive and ready are two questions."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from gpushare_plugin.sim.kubelet import Faults
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, Machine, node_in, pod

PAGES = {"status_address": "127.0.0.1:0"}
OK = (200, "ok\n")


async def test_ready_is_registered_with_an_open_stream(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False), **PAGES) as node:
        await node.kubelet.set_faults(Faults(withhold_list_and_watch=True))
        await node.kubelet.start()
        await log.said("registered")

        registered_only = await node.page("/readyz")
        await node.kubelet.set_faults(Faults())
        await node.kubelet.restart()
        await node.ready(registrations=2)

        assert registered_only[0] == 503
        assert await node.page("/readyz") == OK


async def test_without_a_kubelet_the_daemon_is_alive_and_not_ready(
    short_path: Path, log: EventLog
) -> None:
    (short_path / "plugins").mkdir()
    async with node_in(short_path, log, Machine(kubelet_runs=False), **PAGES) as node:
        status, text = await node.page("/readyz")

        assert status == 503
        assert "kubelet.sock is not there: no kubelet yet" in text
        assert await node.page("/healthz") == OK


async def test_b22_a_kubelet_that_has_gone_makes_it_not_ready_and_says_why(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **PAGES) as node:
        await node.ready()
        before = await node.page("/readyz")
        await node.kubelet.stop()
        await log.said("not_registered")

        status, text = await node.page("/readyz")
        registered = await node.metric("gpushare_registered")

    assert before == OK
    assert (status, "no kubelet answers" in text) == (503, True)
    assert registered == 0


async def test_the_metrics_tell_of_cards_and_their_use(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, **PAGES) as node:
        await node.ready()
        await node.kubelet.admit(pod("a", 4))

        values = {
            name: await node.metric(f"gpushare_{name}")
            for name in (
                "nvml_up",
                "registered",
                "list_streams",
                "gpus_left_out",
                "registrations_total",
                "allocate_seconds_count",
                "preferred_allocation_seconds_count",
            )
        }
        units = await node.metric("gpushare_card_units", uuid=FIRST, index="0", model="Tesla T4")

    assert values == {
        "nvml_up": 1,
        "registered": 1,
        "list_streams": 1,
        "gpus_left_out": 0,
        "registrations_total": 1,
        "allocate_seconds_count": 1,
        "preferred_allocation_seconds_count": 1,
    }
    assert units == 15


async def test_a_value_that_is_not_known_is_left_out(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False), **PAGES) as node:
        await node.kubelet.set_faults(Faults(pod_resources_absent=True))
        await node.kubelet.start()
        await node.ready()
        await log.said("pod_resources_unavailable")

        assert await node.metric("gpushare_card_allocated_units") is None
        assert await node.metric("gpushare_card_units", index="0") == 15


async def test_a_port_that_is_taken_is_tried_again_and_the_kubelet_is_served_meanwhile(
    short_path: Path, log: EventLog
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with node_in(short_path, log, status_address=f"127.0.0.1:{port}") as node:
            await node.ready()
            line = await log.said("status_address_unavailable")

            taken.close()
            assert await node.page("/readyz") == OK

    assert (line["port"], line["level"]) == (str(port), "WARNING")
    assert len(log.of("status_address_unavailable")) == 1


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/debug"])
async def test_there_are_no_other_pages(short_path: Path, log: EventLog, path: str) -> None:
    async with node_in(short_path, log, **PAGES) as node:
        status, _ = await node.page(path)

    assert status == 404


async def test_a_page_is_read_and_nothing_else(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, **PAGES):
        said = await log.said("status_pages")
        url = f"http://127.0.0.1:{said['port']}/healthz"
        async with aiohttp.ClientSession() as session:
            async with session.post(url) as answer:
                posted = answer.status, answer.headers["Allow"]
            async with session.head(url) as answer:
                headed = answer.status, answer.headers["Content-Length"]

    assert posted == (405, "GET, HEAD")
    assert headed == (200, "3")


async def test_the_metrics_are_prometheuss_text(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, **PAGES):
        said = await log.said("status_pages")
        url = f"http://127.0.0.1:{said['port']}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            kind = answer.headers["Content-Type"]
            text = await answer.text()

    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE gpushare_card_units gauge\n" in text


async def test_a_page_that_is_being_read_does_not_keep_the_daemon_from_its_end(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **PAGES) as node:
        said = await log.said("status_pages")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(said["port"]))
        request = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
        writer.write(request)
        await reader.readline()
        writer.write(request[:20])

        node.running.cancel()
        async with asyncio.timeout(2):
            await asyncio.gather(node.running, return_exceptions=True)

        writer.close()
        await writer.wait_closed()
