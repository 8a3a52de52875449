"""The original's vectors, and a node of ours on the same cards."""

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node.event_log import EventLog
from tests.node.nodes import Node, node_in, profile_in
from tests.node.plugin_client import Plugin, plugin_at

ORIGINAL: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "original.toml").read_text(encoding="utf-8")
)
TAGS = ("11111111", "22222222")
"""What the UUIDs of the transcripts begin with."""


def vector(kind: str, name: str, what: str = "") -> dict[str, Any]:
    """One vector of the original, by the name of its paragraph."""
    found: list[dict[str, Any]] = ORIGINAL[kind]
    [one] = [each for each in found if each["name"] == name and what in each.get("what", "")]
    return one


def uuid(card: int) -> str:
    return f"GPU-{TAGS[card]}-aaaa-bbbb-cccc-{card:012d}"


def machine(cards_mib: list[int], minors: list[int] | None = None, more: str = "") -> str:
    """The description of a machine with the transcripts' cards."""
    return "".join(
        f'gpu uuid={uuid(n)} name="Tesla T4" total_mib={mib}'
        f" minor={minors[n] if minors else n} {more}\n"
        for n, mib in enumerate(cards_mib)
    )


@dataclass(frozen=True, kw_only=True)
class Ours:
    """Our daemon on the cards of a vector."""

    node: Node
    plugin: Plugin


@asynccontextmanager
async def ours_on(
    given: dict[str, Any], folder: Path, log: EventLog, *, units: int, **settings: str
) -> AsyncIterator[Ours]:
    """Run our daemon on a vector's cards, until it has so many units."""
    profile = profile_in(folder, machine(given["cards_mib"], given.get("minors")))
    async with node_in(folder, log, simulate=profile, **settings) as node:
        await node.ready(units=units)
        async with plugin_at(node.socket()) as plugin:
            yield Ours(node=node, plugin=plugin)
