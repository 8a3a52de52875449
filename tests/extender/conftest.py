"""What the tests of the extender share."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.node.event_log import EventLog, listening

settings.register_profile(
    "same-each-time", derandomize=True, deadline=None, database=None, max_examples=150
)
settings.load_profile("same-each-time")


@pytest.fixture
def log() -> Iterator[EventLog]:
    """Every event that the package logs during the test."""
    with listening() as log:
        yield log
