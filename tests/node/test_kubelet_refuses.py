"""A kubelet that does not take us: tried again without haste, or given up with the reason."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from gpushare_plugin.errors import KubeletRefused
from gpushare_plugin.sim.kubelet import Faults, SimKubelet
from tests.node.event_log import EventLog
from tests.node.nodes import (
    RESOURCE,
    Machine,
    config_in,
    daemon_running,
    kubelet_settings,
    node_in,
)

WAITS_SECONDS = (0.16, 0.32)
"""The least that the back-off waits before each further try."""


async def test_b09_a_kubelet_that_refuses_for_a_while_is_asked_less_and_less_often(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        await node.kubelet.set_faults(
            Faults(refuse_registrations=3, refuse_status="UNAVAILABLE", refuse_text="not now")
        )
        await node.kubelet.start()
        await node.ready()

        times = [record.unix_seconds for record in node.kubelet.state().rejections]

    between = [later - sooner for sooner, later in pairwise(times)]
    assert all(seconds >= least for seconds, least in zip(between, WAITS_SECONDS, strict=True))


async def test_b09_what_stays_wrong_is_said_once(short_path: Path, log: EventLog) -> None:
    async with node_in(
        short_path, log, Machine(kubelet_runs=False), status_address="127.0.0.1:0"
    ) as node:
        await node.kubelet.set_faults(Faults(refuse_registrations=3, refuse_text="busy"))
        await node.kubelet.start()
        await node.ready()

        counted = await node.metric("gpushare_registration_failures_total", cause="kubelet")

    assert len(log.of("not_registered", cause="kubelet")) == 1
    assert counted == 3


async def test_b09_each_other_trouble_is_said_again(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, Machine(kubelet_runs=False)) as node:
        for text in ("busy", "still starting"):
            await node.kubelet.set_faults(Faults(refuse_registrations=1000, refuse_text=text))
            await node.kubelet.restart()
            await log.said("not_registered", times=1 if text == "busy" else 2)
        await node.kubelet.set_faults(Faults())

        await node.ready()

    [first, second] = [line["error"] for line in log.of("not_registered")]
    assert "busy" in first
    assert "still starting" in second


async def test_b09_a_registration_that_hangs_is_given_up_and_tried_again(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(
        short_path, log, Machine(kubelet_runs=False), register_timeout_seconds="0.3"
    ) as node:
        await node.kubelet.set_faults(Faults(register_hangs=True))
        await node.kubelet.start()
        line = await log.said("not_registered", cause="kubelet")
        await node.kubelet.set_faults(Faults())

        await node.ready()

    assert f"did not register {RESOURCE}" in line["error"]


@pytest.mark.parametrize(
    ("status", "text", "part"),
    [
        pytest.param(
            "UNKNOWN",
            'requested API version "v1beta1" is not supported by kubelet. Supported version'
            ' is ["v2"]',
            "another kubelet is needed",
            id="version",
        ),
        pytest.param(
            "UNKNOWN",
            f'the ResourceName "{RESOURCE}" is invalid',
            "another --resource-name",
            id="name",
        ),
        pytest.param(
            "UNIMPLEMENTED", "unknown service v1beta1.Registration", "1.10 or later", id="no API"
        ),
    ],
)
async def test_b09_what_can_never_work_ends_the_daemon_with_the_reason(
    short_path: Path, log: EventLog, status: str, text: str, part: str
) -> None:
    async with SimKubelet(kubelet_settings(short_path)) as kubelet:
        await kubelet.set_faults(
            Faults(refuse_registrations=1, refuse_status=status, refuse_text=text)
        )

        with pytest.raises(ExceptionGroup) as raised:
            async with daemon_running(config_in(short_path)) as running:
                await asyncio.wait_for(running, timeout=5)

        assert len(kubelet.state().rejections) == 1
    [cause] = raised.value.exceptions
    assert isinstance(cause, KubeletRefused)
    assert part in str(cause)
