"""Why a pod fits nowhere, in one sentence over all nodes that were asked about.

Rule: what is free in all is told beside what one card has, since that is what is missed:
kube-scheduler's own message lists nodes, or counts units of several cards together.
Decides nothing and knows no clock.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.room import NodeRoom

MOST_PROBLEMS = 3


def summary(ask: Ask, rooms: Iterable[NodeRoom], reasons: Sequence[str]) -> str:
    """Return the sentence; `rooms` are of the nodes that were asked about, `reasons` theirs."""
    sharing = [room for room in rooms if room.cards or room.total_units]
    usable = [room for room in sharing if not room.node.problem]
    amount = f"{ask.units_per_card} {_unit(sharing)}"
    parts = [f"{_asked(ask, amount)}: {_nearest(ask, usable, reasons)}"]
    if usable:
        free_units = sum(room.free_units for room in usable)
        parts.append(f"{free_units} {_unit(usable)} free in all on {_nodes(len(usable))}")
    left_out = [room for room in sharing if room.node.problem]
    if left_out:
        parts.append(f"{_nodes(len(left_out))} left out: {_problems(left_out)}")
    return "; ".join(parts)


def _asked(ask: Ask, amount: str) -> str:
    if ask.card_count == 1:
        return f"{amount} fit no card"
    return f"{amount} on each of {ask.card_count} cards fit no node"


def _nearest(ask: Ask, usable: Sequence[NodeRoom], reasons: Sequence[str]) -> str:
    """Return what comes nearest to the ask."""
    if not usable:
        return "no node that kube-scheduler asked about shares a card now"
    best = min(usable, key=lambda room: (-room.largest_free_units, room.node.name))
    if ask.is_plain:
        most = max(0, best.largest_free_units)
        return f"largest free card has {most} ({best.node.name})"
    own = next((each for each in reasons if each.startswith(f"{best.node.name}: ")), "")
    return own or f"{best.node.name} comes nearest"


def _unit(rooms: Sequence[NodeRoom]) -> str:
    units = {room.node.unit for room in rooms}
    return units.pop() if len(units) == 1 else "units"


def _problems(rooms: Sequence[NodeRoom]) -> str:
    counted = Counter(room.node.problem for room in rooms).most_common()
    shown = [
        text if number == len(rooms) else f"{number}: {text}"
        for text, number in counted[:MOST_PROBLEMS]
    ]
    more = len(counted) - MOST_PROBLEMS
    return ", ".join(shown) + (f" and {more} other reasons" if more > 0 else "")


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
