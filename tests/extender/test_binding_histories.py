"""Random histories of binds: whatever goes wrong, no card ever holds more than it has."""

import logging
from collections.abc import Iterator

import pytest

from tests.extender.binding_history import History
from tests.histories.virtual_time import run
from tests.node.event_log import LOGGER

BLOCKS = 20
HISTORIES = 500
"""In each block."""


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """Nobody reads the log of thousands of histories."""
    logger = logging.getLogger(LOGGER)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.timeout(120)
def test_no_card_ever_holds_more_than_it_has_and_in_quiet_the_ledger_is_the_truth(
    block: int,
) -> None:
    run(_play(range(block * HISTORIES, (block + 1) * HISTORIES)))


async def _play(seeds: range) -> None:
    for seed in seeds:
        history = History.of_seed(seed)
        try:
            await history.play()
        except Exception as error:
            steps = "\n  ".join(history.steps)
            raise AssertionError(
                f"{error!r}; seed {seed}, cards {history.api.cards}, steps:\n  {steps}"
            ) from error
