"""The freest card of each node of a list, in the list's order, kept up with the cluster.

Rule: only the places of nodes that changed are written again; a list that was not seen
before, or not for too long, is gone through once.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import repeat

from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.names import NameList

MOST_LISTS = 8
UNKNOWN_NODE = -1
"""In the place of a number of units: less than any request."""


class _Column:
    def __init__(self, largest: list[int], generation: int) -> None:
        self.largest = largest
        self.generation = generation


class Columns:
    """One column for each list that was asked about last."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: OrderedDict[NameList, _Column] = OrderedDict()

    def of(self, names: NameList) -> Sequence[int]:
        """Return the largest free units by place, as of now; not a copy."""
        largest_free = self._cluster.largest_free()
        generation = self._cluster.generation
        column = self._known.get(names)
        changed = self._cluster.changed_since(column.generation) if column else None
        if column is None or changed is None or not names.distinct:
            column = _Column(
                list(map(largest_free.get, names.names, repeat(UNKNOWN_NODE))), generation
            )
            self._keep(names, column)
        else:
            for node_name in changed & names.positions.keys():
                units = largest_free.get(node_name, UNKNOWN_NODE)
                column.largest[names.positions[node_name]] = units
            column.generation = generation
        return column.largest

    def _keep(self, names: NameList, column: _Column) -> None:
        self._known[names] = column
        self._known.move_to_end(names)
        if len(self._known) > MOST_LISTS:
            self._known.popitem(last=False)
