"""How long to wait before the next try."""

import random
from collections.abc import Callable

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 10.0
JITTER = 0.2


class BackOff:
    """Waits that double from 0.2 s to 10 s, each up to a fifth longer or shorter.

    The jitter keeps the daemons of a cluster from trying in step after an outage.
    """

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        """Begin with the shortest wait; `draw` returns a number from 0 to 1."""
        self._draw = draw
        self._next_seconds = FIRST_SECONDS

    def reset(self) -> None:
        """Begin with the shortest wait again."""
        self._next_seconds = FIRST_SECONDS

    def next_seconds(self) -> float:
        """Return the next wait."""
        seconds = self._next_seconds
        self._next_seconds = min(LONGEST_SECONDS, seconds * 2)
        return seconds * (1 + JITTER * (2 * self._draw() - 1))
