"""The ConfigMaps `unhealthy-gpu-<node>`: cards that somebody declared unhealthy, by index.

Rule: an entry that is no index is left out with a warning. The original takes it for card
0, and a healthy card stands idle.
"""

import re

from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.logs import event_logger
from gpushare_plugin.ports.cluster import Change, Upserted
from gpushare_plugin.ports.scheduling import UnhealthyList

log = event_logger(__name__)

_INDEX = re.compile(r"[0-9]{1,4}")


class UnhealthyCards:
    """Tells the ledger what the ConfigMaps say."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def changed(self, change: Change[UnhealthyList]) -> None:
        """Take a list as it is now, or forget it."""
        found = change.item
        text = found.text if isinstance(change, Upserted) else ""
        indices, junk = read_indices(text)
        if junk:
            log.warning(
                "unhealthy_list_unreadable",
                node=found.node_name,
                found=text,
                expected="indices of cards with commas, such as 0,2",
                doing="passing over the rest",
            )
        self._cluster.unhealthy_changed(found.node_name, indices)


def read_indices(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """Return the indices of a comma list, and what in it is none."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    junk = tuple(word for word in words if not _INDEX.fullmatch(word))
    return frozenset(int(word) for word in words if word not in junk), junk
