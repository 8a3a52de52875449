"""What the histories share."""

import logging
from collections.abc import Iterator

import pytest

from tests.node.event_log import LOGGER


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """Nobody reads the log of thousands of histories."""
    logger = logging.getLogger(LOGGER)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
