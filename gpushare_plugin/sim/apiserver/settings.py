"""What one simulated API server is told at its start.

Rule: a default is what the real server does, unless the field says otherwise.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class TooOld(StrEnum):
    """How a watch from a version that is gone is answered."""

    EVENT = "event"
    """200, then one ERROR event with code 410: what its watch cache answers."""
    HTTP = "http"
    """410 at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """The fixed properties of one server."""

    port: int = 0
    """0: any free one; it stays the same when the server goes away and comes back."""
    tls_certificate: Path | None = None
    """A PEM file; with its key, the server speaks HTTPS."""
    tls_key: Path | None = None
    """Where it is not in the certificate's file."""
    history_changes: int = 100_000
    """How far back a watch can start; older versions are gone."""
    bookmark_seconds: float = 60.0
    watch_seconds: float = 1800.0
    """How long a watch lives that names no timeout; the real one takes a random time of 30
    to 60 minutes."""
    too_old: TooOld = TooOld.EVENT
    managed_fields_bytes: int = 2048
    """How much of `metadata.managedFields` each object carries; 0 for none."""
    gzip_from_bytes: int = 0
    """From which size answers are compressed for clients that take it; 0 for never, where the
    real server begins at 131,072."""
    grace_enforced: bool = True
    """Whether a terminating pod goes when its grace is over; else only when told."""
    grace_scale: float = 1.0
    """How long one second of grace really lasts; 0.01 makes 30 s pass in 0.3 s."""
    call_log_entries: int = 50_000
    """How many calls the journal keeps; the oldest go first."""
    body_log_bytes: int = 65_536
    """How much of each request's body the journal keeps."""
