"""What the tests against the original's vectors share."""

from collections.abc import Iterator

import pytest

from tests.node.event_log import EventLog, listening


@pytest.fixture
def log() -> Iterator[EventLog]:
    """Every event that the package logs during the test."""
    with listening() as log:
        yield log
