"""The cluster of the extender's rows, and what kube-scheduler says about it.

All nodes have eight cards and four pods. On a tenth of the nodes these hold all cards, so
that nothing more fits there; on the others each has one card to itself.

Rule: names have 30 characters, nodes and pods 8 KB.
"""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bench.cluster import pod
from bench.plan import Plan
from bench.subjects import CARDS, RESOURCE, UNITS_A_CARD
from gpushare_plugin.sim.apiserver import ApiServerControl

FIRST = 10_000
"""The number of the first node and of the first pod: all numbers have five digits."""
NODE_NAME = "gpu-worker-h200-zone-a-0-{n}-x"
COUNT_RESOURCE = "aliyun.com/gpu-count"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
CARD_COUNT = "gpushare.io/gpu-count"
PODS_A_NODE = 4
POD_UNITS = 8
FULL_SHARE = 10
"""One node in so many is full."""
UNIT_MIB = 1019
GOROUTINES = 16
"""kube-scheduler's `parallelism`."""
FILLER = [{"name": f"SETTING_{n}", "value": "x" * 100} for n in range(42)]
IMAGES = [{"names": [f"registry.example/image-{n}@sha256:{'0' * 64}"]} for n in range(45)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How many nodes there are, and which of them are full."""

    nodes: int

    @classmethod
    def of(cls, plan: Plan) -> "Scale":
        """Return the plan's."""
        return cls(nodes=plan.extender_nodes)

    @property
    def full(self) -> int:
        """How many are full: the first ones by number."""
        return max(1, self.nodes // FULL_SHARE)

    @property
    def pods(self) -> int:
        """How many pods there are at first."""
        return self.nodes * PODS_A_NODE

    def names(self) -> list[str]:
        """Return all nodes' names by number."""
        return [node_name(number) for number in range(self.nodes)]

    def largest_free(self) -> dict[str, int]:
        """Return the largest free units of each node at first."""
        return {
            name: 0 if number < self.full else UNITS_A_CARD
            for number, name in enumerate(self.names())
        }


def node_name(number: int) -> str:
    """Return the name of a node."""
    return NODE_NAME.replace("{n}", str(FIRST + number))


def small_pod(number: int) -> str:
    """Return the name of the first pod of a node that is not full."""
    return f"small-0-{FIRST + number}"


async def fill(api: ApiServerControl, scale: Scale) -> None:
    """Create nodes and pods."""
    await api.create_many("nodes", node_object(NODE_NAME), scale.nodes, first=FIRST)
    cards = range(CARDS)
    for each in range(PODS_A_NODE):
        two = f"{cards[2 * each]},{cards[2 * each + 1]}"
        large = asking_pod(f"large-{each}-{{n}}", units=2 * UNITS_A_CARD, cards=two)
        small = asking_pod(f"small-{each}-{{n}}", units=POD_UNITS, cards=str(each))
        await api.create_many("pods", large, scale.full, first=FIRST)
        await api.create_many("pods", small, scale.nodes - scale.full, first=FIRST + scale.full)


def node_object(name: str) -> dict[str, Any]:
    """Return a node of eight cards as our node daemon leaves it."""
    gpus = [
        {"index": index, "uuid": uuid(name, index), "model": "H200", "units": UNITS_A_CARD}
        for index in range(CARDS)
    ]
    record = {"v": 1, "unit_mib": UNIT_MIB, "isolation": "none", "gpus": gpus}
    amounts = {RESOURCE: str(CARDS * UNITS_A_CARD), COUNT_RESOURCE: str(CARDS), "cpu": "128"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"gpushare.io/gpus": json.dumps(record)}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": IMAGES,
        },
    }


def uuid(name: str, index: int) -> str:
    """Return a card's UUID, of the form that NVIDIA's have; its first part tells it from others."""
    number = name.split("-")[-2]
    return f"GPU-{number}00{index}-0000-4000-8000-000000000000"


def asking_pod(name: str, *, units: int, cards: str, node: str = NODE_NAME) -> dict[str, Any]:
    """Return a pod that is bound to a node and to cards of it; of 0 units it asks for none."""
    annotations = {INDEX: cards} if units else {}
    if "," in cards:
        annotations[CARD_COUNT] = str(cards.count(",") + 1)
    return _filled(pod(name, units=units, node=node, annotations=annotations))


def waiting_pod(name: str) -> dict[str, Any]:
    """Return a pod that waits for a node."""
    waiting = _filled(pod(name, units=POD_UNITS, node=""))
    del waiting["spec"]["nodeName"]
    return waiting


def _filled(value: dict[str, Any]) -> dict[str, Any]:
    (container,) = value["spec"]["containers"]
    container["env"] = FILLER
    if not int(container["resources"]["limits"][RESOURCE]):
        container["resources"] = {}
    return value


# --------------------------------------------------------------------- the scheduler's words


def names_bodies(names: Sequence[str], count: int, *, same_list: bool) -> list[bytes]:
    """Return so many ExtenderArgs by names, each for another pod.

    Unless it is the same list, each has an order of its own, as kube-scheduler's lists do.
    """
    draw = random.Random(1)  # noqa: S311  # disorder, no secret
    order, bodies = _as_scheduler(names, draw), []
    for number in range(count):
        order = order if same_list else _as_scheduler(names, draw)
        bodies.append(_extender_args(f"asked-{number}", NodeNames=order))
    return bodies


def _as_scheduler(names: Sequence[str], draw: random.Random) -> list[str]:
    """Return the names as kube-scheduler finds them fit.

    It begins at another node each time, and 16 goroutines each take the next piece, whose
    length is the root of the number of nodes (`pkg/scheduler/framework/parallelize`).
    """
    start = draw.randrange(len(names))
    rotated = [*names[start:], *names[:start]]
    length = math.isqrt(len(names)) + 1
    pieces = iter([rotated[at : at + length] for at in range(0, len(rotated), length)])
    at_work = [iter(piece) for piece in islice(pieces, GOROUTINES)]
    found: list[str] = []
    while at_work:
        which = draw.randrange(len(at_work))
        name = next(at_work[which], None)
        if name is not None:
            found.append(name)
        elif (piece := next(pieces, None)) is not None:
            at_work[which] = iter(piece)
        else:
            del at_work[which]
    return found


def nodes_body(names: Sequence[str]) -> bytes:
    """Return ExtenderArgs with whole Node objects."""
    items = [node_object(name) for name in names]
    return _extender_args("asked", Nodes={"metadata": {}, "items": items})


def _extender_args(pod_name: str, **nodes: object) -> bytes:
    asking = waiting_pod(pod_name)
    asking["metadata"] |= {"namespace": "default", "resourceVersion": "1"}
    args: Mapping[str, object] = {
        "Pod": asking,
        "Nodes": None,
        "NodeNames": None,
        **nodes,
    }
    return json.dumps(args, separators=(",", ":")).encode()
