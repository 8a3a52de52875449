"""A stream of bytes, cut into lines.

Rule: each byte is copied a bounded number of times, however long a line is: a pod
with thousands of devices is megabytes.
"""


class Lines:
    """Cuts at line ends; what is behind the last one waits for more."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are whole now, without their ends; empty ones are left out."""
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._begun, whole[0]))
            self._begun.clear()
        if rest:
            self._begun.append(rest)
        return [line for line in whole if line]

    @property
    def begun_bytes(self) -> int:
        """How much of a line that is not whole is there."""
        return sum(len(part) for part in self._begun)
