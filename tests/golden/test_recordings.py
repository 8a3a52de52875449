"""What our own daemon says on the wire, recorded: a change of it is seen in a diff.

`make golden` writes the recording anew. (The original's vectors are never rewritten.)
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, SECOND_TAG, Node, node_in
from tests.node.plugin_client import Plugin, ids, plugin_at, read

RECORDING = Path(__file__).parent / "answers.txt"

INJECTIONS: tuple[Mapping[str, str], ...] = (
    {},
    {"visible_devices": "index", "cgpu_disable": "on"},
    {"device_injection": "cdi"},
)


async def test_golden_answers_of_the_daemon(
    short_path: Path, log: EventLog, golden_rewrite: bool
) -> None:
    said = "\n".join(
        [
            await _registration_and_list(short_path, log),
            *[await _allocation(short_path, log, settings) for settings in INJECTIONS],
            await _refusals(short_path, log),
        ]
    )

    if golden_rewrite:
        RECORDING.write_text(said, encoding="utf-8")
    assert said == RECORDING.read_text(encoding="utf-8"), "`make golden` writes it anew"


@asynccontextmanager
async def _running(
    folder: Path, log: EventLog, settings: Mapping[str, str]
) -> AsyncIterator[tuple[Node, Plugin]]:
    async with node_in(folder, log, **settings) as node:
        await node.kubelet.allocatable("aliyun.com/gpu-mem", equals=30)
        async with plugin_at(node.socket()) as plugin:
            yield node, plugin


async def _registration_and_list(folder: Path, log: EventLog) -> str:
    async with _running(folder, log, {}) as (node, plugin):
        [record] = node.kubelet.state().registrations
        options = await plugin.options()
        message = await read(plugin.list_and_watch())
    endpoint = re.sub(r"[0-9a-f]{8}", "<nonce>", record.endpoint)
    return _section(
        "registration, and the list of two cards",
        f"version {record.version}",
        f"resource {record.resource}",
        f"endpoint {endpoint}",
        f"options {str(options).strip()}",
        f"bytes {message.ByteSize()}",
        *(f"device {device.ID} {device.health}" for device in message.devices),
    )


async def _allocation(folder: Path, log: EventLog, settings: Mapping[str, str]) -> str:
    async with _running(folder, log, settings) as (_, plugin):
        [answer] = await plugin.allocate(ids(SECOND_TAG, 0, 1, 2, 3))
    given = " ".join(f"{key}={value}" for key, value in settings.items()) or "defaults"
    return _section(
        f"4 of 15 units on the second card, {given}",
        *(f"env {key}={answer.envs[key]}" for key in sorted(answer.envs)),
        *(f"cdi {device.name}" for device in answer.cdi_devices),
        *(f"annotation {key}={answer.annotations[key]}" for key in sorted(answer.annotations)),
    )


async def _refusals(folder: Path, log: EventLog) -> str:
    asked = {
        "two cards": [*ids(FIRST_TAG, 0, 1), *ids(SECOND_TAG, 0)],
        "no card of this node": ["ffffffff-0"],
        "no unit of the card": ids(FIRST_TAG, 15),
        "the original's": [f"{FIRST}-_-0"],
        "malformed": ["gpu0"],
        "twice": ids(FIRST_TAG, 0, 0),
        "nothing": [],
    }
    lines = []
    async with _running(folder, log, {}) as (_, plugin):
        for name, device_ids in asked.items():
            code, text = await plugin.refusal(device_ids)
            lines.append(f"{name}: {code.name} {text}")
    return _section("refusals", *lines)


def _section(title: str, *lines: str) -> str:
    return "\n".join([f"## {title}", *lines, ""])
