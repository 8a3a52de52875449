"""kubelet_internal_checkpoint: what the device manager knows after a restart.

Rule 1: the file is written to the side and renamed, so a reader never sees half of it.
Rule 2: a file that does not parse, or whose checksum is wrong, counts as none:
the kubelet starts and knows nothing, as the real one does.
Field names are the kubelet's; the checksum is not (the kubelet's is over a dump
of its Go values), so the two can't read each other's files.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.kubelet.devices import DeviceAccounts, Holder, Holding


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What a checkpoint holds."""

    holdings: Mapping[Holder, Holding] = field(default_factory=dict)
    resources: tuple[str, ...] = ()


def write_checkpoint(path: Path, accounts: DeviceAccounts) -> None:
    """Write what the accounts know now."""
    content = {
        "PodDeviceEntries": [_entry(*item) for item in sorted(accounts.holdings.items())],
        "RegisteredDevices": {
            resource: sorted(accounts.healthy(resource))
            for resource in accounts.names
            if accounts.registered(resource)
        },
    }
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(json.dumps({"Data": content, "Checksum": _checksum(content)}))
    aside.replace(path)


def read_checkpoint(path: Path) -> Remembered:
    """Read what an earlier life wrote; nothing where there is no sound file."""
    try:
        document = json.loads(path.read_text())
        content = document["Data"]
        if document["Checksum"] != _checksum(content):
            return Remembered()
        return Remembered(
            holdings=dict(_holdings(content["PodDeviceEntries"])),
            resources=tuple(content["RegisteredDevices"]),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Remembered()


def _entry(holder: Holder, holding: Holding) -> dict[str, Any]:
    return {
        "PodUID": holder.pod_uid,
        "ContainerName": holder.container,
        "ResourceName": holder.resource,
        "DeviceIDs": {str(node): list(ids) for node, ids in holding.ids_by_node.items()},
        "AllocResp": base64.b64encode(holding.answer).decode(),
    }


def _holdings(entries: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Holder, Holding]]:
    for entry in entries:
        holder = Holder(entry["PodUID"], entry["ContainerName"], entry["ResourceName"])
        ids_by_node = {int(node): tuple(ids) for node, ids in entry["DeviceIDs"].items()}
        answer = base64.b64decode(entry["AllocResp"])
        yield holder, Holding(ids_by_node=ids_by_node, answer=answer)


def _checksum(content: Any) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
