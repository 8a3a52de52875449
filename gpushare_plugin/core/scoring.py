"""Scores for the nodes that a pod fits on: 0 to 10, as kube-scheduler takes them.

Rule 1: nodes are ranked by the key that chose the cards (`fitting.preference`), then by
the policy's liking for full or empty nodes, then by name.
Rule 2: one node alone has 10. kube-scheduler picks among equals at random, so a tie would
give the choice away.
"""

from collections.abc import Mapping

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.fitting import Preference, preference
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.room import CardRoom, NodeRoom

BEST = 10
SECOND = BEST - 1

Key = tuple[Preference, float]


def scores(fits: Mapping[str, tuple[NodeRoom, tuple[CardRoom, ...]]], ask: Ask) -> dict[str, int]:
    """Return a score for each node by name, given the cards that the pod would get there.

    Nodes that are alike but for their names have the same score, but for the best one.
    """
    if not ask.units:
        return dict.fromkeys(fits, 0)
    keys = {name: _key(room, cards, ask) for name, (room, cards) in fits.items()}
    if not keys:
        return {}
    best = min(keys, key=lambda name: (keys[name], name))
    others = sorted({key for name, key in keys.items() if name != best})
    lowest = max(1, len(others) - 1)
    by_key = {key: SECOND - place * SECOND // lowest for place, key in enumerate(others)}
    return {name: BEST if name == best else by_key[key] for name, key in keys.items()}


def _key(room: NodeRoom, cards: tuple[CardRoom, ...], ask: Ask) -> Key:
    share = room.used_share
    return preference(room, cards, ask), share if ask.policy is Policy.SPREAD else -share
