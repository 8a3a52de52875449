"""The original gpushare extender's environment, so that its manifests keep working.

It has four variables and no command line. What ours has too is taken over, in our words;
what has no meaning here is dropped; each is told in the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PORT = "PORT"
LOG_LEVEL = "LOG_LEVEL"
THREADNESS = "THREADNESS"
KUBECONFIG = "KUBECONFIG"

_LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEnvironment:
    """The original's variables in our words."""

    settings: Mapping[str, tuple[str, str]]
    """By field: the variable, and the text that ours would have."""
    warnings: tuple[tuple[str, str], ...] = ()
    """Variables that do not have the effect that they had, each with the reason."""


def take_over_environment(environ: Mapping[str, str]) -> TakenEnvironment:
    """Return what the original's variables say."""
    settings: dict[str, tuple[str, str]] = {}
    warnings: list[tuple[str, str]] = []
    if port := environ.get(PORT):
        settings["listen_address"] = (PORT, f"127.0.0.1:{port}")
        warnings.append(
            (PORT, "served on loopback alone; --listen-address with TLS or --plain-http for more")
        )
    if level := environ.get(LOG_LEVEL):
        # The original takes any other word for a level that hides what it says.
        settings["log_level"] = (LOG_LEVEL, _LEVELS.get(level, level))
    if kubeconfig := environ.get(KUBECONFIG):
        settings["kubeconfig"] = (KUBECONFIG, kubeconfig)
    if environ.get(THREADNESS):
        warnings.append((THREADNESS, "there are no workers: what is watched is taken in at once"))
    return TakenEnvironment(settings=settings, warnings=tuple(warnings))
