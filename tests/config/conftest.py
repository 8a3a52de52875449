"""Properties run over the same examples each time; what a test logs ends with it."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile(
    "same-each-time", derandomize=True, deadline=None, database=None, max_examples=150
)
settings.load_profile("same-each-time")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The command line sets format and level for the whole process."""
    root, ours = logging.getLogger(), logging.getLogger("gpushare_plugin")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
