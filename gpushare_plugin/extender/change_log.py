"""Which nodes changed since when, so that what was worked out before is mended, not redone.

Rule: a generation is one change; who was last here too long ago is told to begin anew.
"""

from collections import deque
from itertools import islice

MOST_CHANGES = 4096


class ChangeLog:
    """The names of the nodes that changed last, one for each generation."""

    def __init__(self) -> None:
        self.generation = 0
        self._changes: deque[str] = deque(maxlen=MOST_CHANGES)

    def add(self, node_name: str) -> None:
        """Count one change of a node."""
        self.generation += 1
        self._changes.append(node_name)

    def since(self, generation: int) -> set[str] | None:
        """Return the nodes that changed after a generation; None if that is not known any more."""
        count = self.generation - generation
        if count > len(self._changes):
            return None
        return set(islice(reversed(self._changes), count))
