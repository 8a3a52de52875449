"""Nodes and pods in the small, and a ledger that was told of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Container, ContainerKind, Phase, Pod
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtering
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.names import NameList
from gpushare_plugin.ports.cluster import Node, Upserted

UNITS = ALIYUN.memory_resource
CORES = ALIYUN.core_resource
INDEX = ALIYUN.annotations.card_index or ""


def uuid(node_name: str, index: int) -> str:
    number = sum(node_name.encode()) * 64 + index
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def node(
    name: str,
    *units: int,
    model: str = "Tesla T4",
    uid: str = "",
    ready: bool = True,
    health: Mapping[str, object] | None = None,
    recorded: bool = True,
) -> Node:
    """A node with a card of so many units for each number."""
    gpus = [
        {"index": index, "uuid": uuid(name, index), "model": model, "units": each}
        for index, each in enumerate(units)
    ]
    record = {"v": 1, "unit_mib": 1024, "isolation": "none", "gpus": gpus}
    annotations = {"gpushare.io/gpus": json.dumps(record)} if recorded and units else {}
    if health is not None:
        annotations["gpushare.io/health"] = json.dumps(health)
    amounts = {UNITS: str(sum(units)), "aliyun.com/gpu-count": str(len(units))} if units else {}
    return Node(
        name=name,
        uid=uid or f"uid-{name}",
        annotations=annotations,
        capacity=amounts,
        allocatable=amounts,
        ready=ready,
    )


def pod(  # noqa: PLR0913 - what differs from test to test
    name: str,
    units: int,
    *,
    on: str = "",
    card: str | None = None,
    uid: str = "",
    cores: int = 0,
    phase: Phase = Phase.PENDING,
    terminating: bool = False,
    priority: int = 0,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """A pod of one container; `card` is the annotation by which a card was chosen."""
    requests = {UNITS: units, CORES: cores}
    return Pod(
        namespace="default",
        name=name,
        uid=uid or f"uid-{name}",
        containers=(
            Container(
                name="main",
                kind=ContainerKind.MAIN,
                requests={key: amount for key, amount in requests.items() if amount},
            ),
        ),
        node_name=on,
        phase=phase,
        terminating=terminating,
        priority=priority,
        annotations={**(annotations or {}), **({INDEX: card} if card is not None else {})},
    )


def told(*objects: Node | Pod) -> Cluster:
    """A ledger that was told of these."""
    cluster = Cluster(ALIYUN)
    for each in objects:
        tell(cluster, each)
    return cluster


def tell(cluster: Cluster, item: Node | Pod) -> None:
    if isinstance(item, Node):
        cluster.node_changed(Upserted(item))
    else:
        cluster.pod_changed(Upserted(item))


def free_units(cluster: Cluster, node_name: str) -> tuple[int, ...]:
    room = cluster.room(node_name)
    assert room is not None
    return tuple(each.free_units for each in room.cards)


def names(*node_names: str) -> NameList:
    return NameList(node_names)


@dataclass
class Asked:
    """A ledger and who answers from it."""

    cluster: Cluster
    fits: Fits
    filtering: Filtering

    @classmethod
    def of(cls, cluster: Cluster, policy: Policy = Policy.BINPACK) -> "Asked":
        fits = Fits(cluster, ALIYUN, policy)
        return cls(cluster=cluster, fits=fits, filtering=Filtering(cluster, fits))

    def fitting(self, asking: Pod, *node_names: str) -> tuple[str, ...]:
        """The names of the nodes that the pod fits on."""
        answer = self.filtering.filter(asking, names(*node_names))
        return tuple(node_names[place] for place in answer.fitting)

    def reason(self, asking: Pod, node_name: str) -> str:
        """Why the pod does not fit; empty if it does."""
        answer = self.filtering.filter(asking, names(node_name))
        return {**answer.failed, **answer.unresolvable}.get(node_name, "")
