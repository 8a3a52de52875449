"""Several gates as one: staleness, who leads, and what another may have done meanwhile."""

from gpushare_plugin.extender.gate import Gate


class JoinedGate:
    """Open while each of them is."""

    def __init__(self, *gates: Gate) -> None:
        """The first one that refuses says why."""
        self._gates = gates

    @property
    def leads(self) -> bool:
        """Whether none of them says that another leads."""
        return all(gate.leads for gate in self._gates)

    async def refusal(self, *, writing: bool) -> str | None:
        """Return why this call cannot be answered now; None if it can."""
        for gate in self._gates:
            refusal = await gate.refusal(writing=writing)
            if refusal is not None:
                return refusal
        return None
