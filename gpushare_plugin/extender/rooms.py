"""What each node has left, worked out from scratch when somebody asks, and kept until it changes.

Rule: a room is a function of the node and of the pods on it; nothing is ever added to or
taken from one. Knows nothing of where nodes and pods come from.
"""

from collections.abc import Callable, Iterable, Mapping

from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.room import NodeRoom, room_of
from gpushare_plugin.core.seats import Seats, seats_of
from gpushare_plugin.core.shared_node import SharedNode

Seated = tuple[Pod, Seats]
"""A pod, and what it holds of its node."""


class Rooms:
    """The rooms of all nodes."""

    def __init__(
        self,
        names: Dialect,
        node_of: Callable[[str], SharedNode | None],
        pods_on: Callable[[str], Iterable[Pod]],
    ) -> None:
        """`node_of` reads a node as it is now, `pods_on` returns those that hold some of it."""
        self._names = names
        self._node_of = node_of
        self._pods_on = pods_on
        self._nodes: dict[str, SharedNode] = {}
        self._rooms: dict[str, NodeRoom] = {}
        self._largest: dict[str, int] = {}
        self._dirty: set[str] = set()

    def node_changed(self, node_name: str) -> None:
        """Look at the node itself anew."""
        self._nodes.pop(node_name, None)
        self._dirty.add(node_name)

    def pods_changed(self, node_name: str) -> None:
        """Look at the node's pods anew."""
        self._dirty.add(node_name)

    def of(self, node_name: str) -> NodeRoom | None:
        """Return what a node has left; None if there is no such node."""
        if node_name in self._dirty:
            self._refresh(node_name)
        return self._rooms.get(node_name)

    def all(self) -> Mapping[str, NodeRoom]:
        """Return what every node has left; not a copy."""
        self._refresh_all()
        return self._rooms

    def largest_free(self) -> Mapping[str, int]:
        """Return `largest_free_units` of every room; not a copy."""
        self._refresh_all()
        return self._largest

    def beside(self, node_name: str, pods: Iterable[Pod]) -> NodeRoom | None:
        """Return what a node would have left with these pods on it."""
        node = self._node(node_name)
        if node is None:
            return None
        return room_of(node, [seats_of(pod, node, self._names) for pod in pods])

    def seated(self, node_name: str, pods: Iterable[Pod]) -> list[Seated]:
        """Return what each of these pods holds of a node; nothing if there is no such node."""
        node = self._node(node_name)
        if node is None:
            return []
        return [(pod, seats_of(pod, node, self._names)) for pod in pods]

    def _refresh_all(self) -> None:
        for node_name in tuple(self._dirty):
            self._refresh(node_name)

    def _refresh(self, node_name: str) -> None:
        self._dirty.discard(node_name)
        room = self.beside(node_name, self._pods_on(node_name))
        if room is None:
            self._rooms.pop(node_name, None)
            self._largest.pop(node_name, None)
            return
        self._rooms[node_name] = room
        self._largest[node_name] = room.largest_free_units

    def _node(self, node_name: str) -> SharedNode | None:
        node = self._nodes.get(node_name) or self._node_of(node_name)
        if node is not None:
            self._nodes[node_name] = node
        return node
