"""`gpushare uninstall`: takes off the node objects what the product wrote there.

Rule 1: each node for itself: one that cannot be changed is told, and the next is tried.
Rule 2: pods keep their annotations: while a pod runs they are the record of what it holds,
for an extender, an inspect or a node daemon that comes after us, and they go with it.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpushare_plugin.core.dialect import DIALECTS, check_resource_name
from gpushare_plugin.core.node_record import NodeObject, Removal, removal
from gpushare_plugin.errors import GpushareError
from gpushare_plugin.ports.cluster import Node, StatusPatch

if TYPE_CHECKING:
    from gpushare_plugin.adapters.kube.client import KubeClient

Say = Callable[[str], None]

COUNTS = tuple(each.count_resource for each in DIALECTS.values() if each.count_resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be uninstalled."""

    node: str | None
    """The one node; None for all."""
    kubeconfig: Path | None = None
    renamed: Sequence[str] = ()
    """Resources that the dialects do not name: what `--resource-name` and the like made."""
    dry_run: bool = False


async def uninstall(wanted: Wanted, say: Say) -> None:
    """Take everything off, and say what of each node.

    Raises:
        ConfigError: the API server cannot be found, or a resource name is none.
        ApiError: a node could not be read or changed; the others have been.
    """
    resources = _resources(wanted.renamed)
    async with _client(wanted.kubeconfig) as client:
        nodes = await _nodes(client, wanted.node)
        failure: GpushareError | None = None
        for node in nodes:
            try:
                await _clean(client, node, resources, wanted, say)
            except GpushareError as error:
                say(f"node {node}: failed: {error}")
                failure = failure or error
        if failure is not None:
            raise failure


async def _clean(
    client: "KubeClient", node: Node, resources: Sequence[str], wanted: Wanted, say: Say
) -> None:
    found = removal(_as_object(node), resources, COUNTS)
    if not found.is_nothing and not wanted.dry_run:
        await client.patch_node_status(node.name, _patch(node, found))
    if found.is_nothing and not found.served and wanted.node is None:
        return
    for line in _told(found, dry_run=wanted.dry_run):
        say(f"node {node}: {line}")


def _told(found: Removal, *, dry_run: bool) -> list[str]:
    parts = {
        "annotations": found.annotations,
        "labels": found.labels,
        "resources": found.resources,
    }
    gone = "; ".join(f"{what} {', '.join(keys)}" for what, keys in parts.items() if keys)
    done = "would take off" if dry_run else "took off"
    lines = [f"{done} {gone}" if gone else "nothing of ours is there"]
    if found.served:
        lines.append(
            f"{', '.join(found.served)} is still served by a device plugin and stays; if that is"
            " ours, delete its DaemonSet, wait until the kubelet shows 0 (it takes 5 minutes), and"
            " run this again"
        )
    return lines


def _patch(node: Node, found: Removal) -> StatusPatch:
    nothing = dict.fromkeys(found.resources)
    status: Mapping[str, object] = {"capacity": nothing, "allocatable": nothing}
    return StatusPatch(
        uid=node.uid,
        annotations=dict.fromkeys(found.annotations),
        labels=dict.fromkeys(found.labels),
        status=status if nothing else {},
    )


def _as_object(node: Node) -> NodeObject:
    return NodeObject(
        annotations=node.annotations,
        labels=node.labels,
        capacity=node.capacity,
        allocatable=node.allocatable,
        ready=node.ready,
    )


def _resources(renamed: Sequence[str]) -> list[str]:
    """Return every resource that we may have served."""
    of_dialects = [
        name for names in DIALECTS.values() for name in (names.memory_resource, names.core_resource)
    ]
    return list(dict.fromkeys([*map(check_resource_name, renamed), *of_dialects]))


async def _nodes(client: "KubeClient", name: str | None) -> list[Node]:
    if name is not None:
        return [await client.get_node(name)]
    listing = await client.list_nodes()
    return sorted((each.item for each in listing.objects), key=str)


@asynccontextmanager
async def _client(kubeconfig: Path | None) -> "AsyncIterator[KubeClient]":
    from gpushare_plugin.adapters.kube.client import KubeClient  # noqa: PLC0415  # 150 ms
    from gpushare_plugin.adapters.kube.reading import pod_reader  # noqa: PLC0415
    from gpushare_plugin.adapters.kube.transport import Transport  # noqa: PLC0415
    from gpushare_plugin.app.credentials import credentials  # noqa: PLC0415

    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ
    file = kubeconfig or (None if in_cluster else Path.home() / ".kube" / "config")
    async with Transport(await credentials(file)) as transport:
        yield KubeClient(transport, pods=pod_reader([]))
