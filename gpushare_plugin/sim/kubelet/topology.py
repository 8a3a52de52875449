"""Which NUMA nodes a container's devices should come from: topology manager, policy best-effort.

Rule 1: the narrowest set of nodes that could ever hold a request is preferred;
among equals the lowest nodes win.
Rule 2: what is free decides which sets are possible, and nothing decides
between them but the nodes: a plugin's preference is not asked here.
Pure; scope container; the machine's nodes are those that the devices name.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from gpushare_plugin.sim.kubelet.devices import Device

Nodes = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a container asks of one resource, and what there is of it."""

    units: int
    devices: Mapping[str, Device]
    free: Collection[str]
    reusable: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The free devices in the order in which they are to be used up."""

    aligned: frozenset[str]
    unaligned: frozenset[str]
    without_numa: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hint:
    nodes: Nodes
    preferred: bool


def affinity(demands: Iterable[Demand]) -> Nodes | None:
    """Return the nodes that best suit all demands together, or None where none matters."""
    placed = [demand for demand in demands if any(d.numa_nodes for d in demand.devices.values())]
    machine = sorted(
        {n for demand in placed for d in demand.devices.values() for n in d.numa_nodes}
    )
    merged = [_merge(choice) for choice in product(*(_hints(d, machine) for d in placed))]
    best = min((hint for hint in merged if hint.nodes), key=_rank, default=None)
    return best.nodes if best is not None and placed else None


def offer(free: Collection[str], devices: Mapping[str, Device], nodes: Nodes | None) -> Offer:
    """Sort the free devices by how well they suit the chosen nodes."""
    if nodes is None or not any(device.numa_nodes for device in devices.values()):
        return Offer(aligned=frozenset(), unaligned=frozenset(), without_numa=frozenset(free))
    aligned = frozenset(i for i in free if nodes.intersection(devices[i].numa_nodes))
    elsewhere = frozenset(i for i in free if devices[i].numa_nodes) - aligned
    return Offer(
        aligned=aligned,
        unaligned=elsewhere,
        without_numa=frozenset(free) - aligned - elsewhere,
    )


def _hints(demand: Demand, machine: list[int]) -> list[_Hint]:
    sets = [
        frozenset(c) for size in range(1, len(machine) + 1) for c in combinations(machine, size)
    ]
    # Preferred is what would do on an empty node, so a full node makes a hint worse, not absent.
    narrowest = min(
        (len(nodes) for nodes in sets if _within(demand.devices, demand, nodes) >= demand.units),
        default=0,
    )
    usable = {*demand.free, *demand.reusable}
    return [
        _Hint(nodes=nodes, preferred=len(nodes) == narrowest)
        for nodes in sets
        if _within(usable, demand, nodes) >= demand.units
        and _within(demand.reusable, demand, nodes) == len(demand.reusable)
    ]


def _within(ids: Iterable[str], demand: Demand, nodes: Nodes) -> int:
    devices = demand.devices
    return sum(1 for i in ids if i in devices and nodes.intersection(devices[i].numa_nodes))


def _merge(hints: tuple[_Hint, ...]) -> _Hint:
    if not hints:
        return _Hint(nodes=frozenset(), preferred=False)
    nodes = frozenset.intersection(*(hint.nodes for hint in hints))
    return _Hint(nodes=nodes, preferred=all(hint.preferred for hint in hints))


def _rank(hint: _Hint) -> tuple[bool, int, int]:
    # The kubelet compares sets of equal size as bit masks, so {1, 2} comes before {0, 3}.
    return (not hint.preferred, len(hint.nodes), sum(1 << node for node in hint.nodes))
