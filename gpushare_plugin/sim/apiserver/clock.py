"""The time of day as objects carry it."""

from datetime import UTC, datetime, timedelta


def timestamp(*, ahead_seconds: float = 0.0) -> str:
    """Return now, or then, to the second."""
    moment = datetime.now(UTC) + timedelta(seconds=ahead_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
