"""Which isolation keeps containers inside their share here, and what it adds.

Rule 1: the best that *every* card of the node supports, and it is named honestly:
`none` enforces nothing, whatever the container is told.
Rule 2: a backend asked for by name that cannot work is an error with the reason,
never a silent step down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpushare_plugin.core.injection import Injection, Share, cdi_name
from gpushare_plugin.errors import ConfigError

DRIVER_MAJOR_WITH_LIMITS = 615
"""The first driver that keeps a cgroup's memory limit (R615, CUDA 13.4)."""


class IsolationChoice(Enum):
    """What the operator asks for."""

    AUTO = "auto"
    DRIVER = "driver"
    NONE = "none"


class Isolation(Enum):
    """What is in force."""

    DRIVER = "driver"
    NONE = "none"

    @property
    def enforces(self) -> bool:
        """Whether a container is kept inside its share."""
        return self is not Isolation.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What the host can do, as far as isolation asks."""

    driver_version: str
    cgroup_v2: bool
    any_mig: bool
    cards_with_limit_hook: frozenset[str] = field(default_factory=frozenset)
    """UUIDs whose CDI device carries the toolkit's memory-limit hook."""
    cards: frozenset[str] = field(default_factory=frozenset)
    """UUIDs of the shared cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The isolation in force, and why it is not a better one."""

    isolation: Isolation
    reason: str


def decide(choice: IsolationChoice, facts: HostFacts) -> Decision:
    """Return the isolation for this node.

    Raises:
        ConfigError: the backend asked for cannot work here.
    """
    if choice is IsolationChoice.NONE:
        return Decision(isolation=Isolation.NONE, reason="asked for")
    obstacle = driver_obstacle(facts)
    if obstacle is None:
        return Decision(isolation=Isolation.DRIVER, reason="the driver keeps the limits")
    if choice is IsolationChoice.DRIVER:
        raise ConfigError(
            f"isolation driver: {obstacle}; expected driver {DRIVER_MAJOR_WITH_LIMITS} or later,"
            " cgroup v2, no MIG and a CDI spec with the memory-limit hook (NVIDIA container"
            " toolkit 1.20.1 or later); or set --isolation auto"
        )
    return Decision(isolation=Isolation.NONE, reason=f"driver isolation: {obstacle}")


def driver_obstacle(facts: HostFacts) -> str | None:
    """Return what keeps the driver from enforcing limits here, or None."""
    major = facts.driver_version.partition(".")[0]
    if not major.isdecimal() or int(major) < DRIVER_MAJOR_WITH_LIMITS:
        return f"the driver is {facts.driver_version or 'unknown'}"
    if not facts.cgroup_v2:
        return "the host has no cgroup v2"
    if facts.any_mig:
        return "MIG is on"
    without = sorted(facts.cards - facts.cards_with_limit_hook)
    if without or not facts.cards:
        which = ", ".join(without) or "any card"
        return f"no CDI spec carries the memory-limit hook for {which}"
    return None


def additions(isolation: Isolation, share: Share, *, unit_mib: int) -> Injection:
    """Return what the isolation adds to a container's injection.

    The limit is clamped to what the card can really give, so that a container that
    asks for all of a card is told an amount that exists. Both variables are needed,
    in whole MiB: with one alone the toolkit's hook silently does nothing.
    """
    if isolation is Isolation.NONE:
        return Injection()
    # The hook sets the same limit on each card of the container.
    wanted_mib = share.container_units // len(share.cards) * unit_mib
    limit_mib = min(wanted_mib, *(card.gpu.memory.usable_mib for card in share.cards))
    limits: Mapping[str, str] = {
        "NVIDIA_GPU_MEMORY_REQUEST": str(limit_mib),
        "NVIDIA_GPU_MEMORY_LIMIT": str(limit_mib),
    }
    return Injection(envs=limits, cdi_devices=tuple(map(cdi_name, share.cards)))
