"""The lists of node names that kube-scheduler sends, each known again by its bytes.

Rule: what is worked out for a list is kept with that very list: a `NameList` is equal
to itself alone. Knows no JSON: who parsed the bytes passes the parser in.
"""

from collections.abc import Callable

MOST_LISTS = 8
"""Of which the raw bytes are kept: one of 5,000 names has 170 KB."""


class NameList:
    """Node names in the order in which they were sent."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)


class NameLists:
    """Remembers the lists that were parsed last, by their bytes."""

    def __init__(self, parse: Callable[[bytes], tuple[str, ...]]) -> None:
        """`parse` reads the bytes of a list; what it raises goes through."""
        self._parse = parse
        self._known: list[tuple[bytes, NameList]] = []

    def of(self, raw: bytes) -> NameList:
        """Return the list of these bytes, the same one each time while it is remembered."""
        # To compare with a few takes a sixth of the time that hashing the bytes takes.
        for each in self._known:
            if each[0] == raw:
                if each is not self._known[0]:
                    self._known.remove(each)
                    self._known.insert(0, each)
                return each[1]
        made = NameList(self._parse(raw))
        self._known.insert(0, (raw, made))
        del self._known[MOST_LISTS:]
        return made
