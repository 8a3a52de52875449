"""Random histories of a node: whatever happened, what is told of it is what is so."""

import random

import pytest

from tests.histories.checks import check
from tests.histories.history import History
from tests.histories.virtual_time import run

BLOCKS = 20
HISTORIES = 500
"""In each block."""


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.timeout(120)
def test_at_every_quiet_moment_all_records_tell_what_the_containers_really_got(
    block: int,
) -> None:
    run(_play(range(block * HISTORIES, (block + 1) * HISTORIES)))


async def _play(seeds: range) -> None:
    for seed in seeds:
        random.seed(seed)  # the back-off's jitter
        history = History.of_seed(seed)
        try:
            await history.play(check)
        except Exception as error:
            steps = "\n  ".join(history.steps)
            raise AssertionError(
                f"{error}; seed {seed}, cards"
                f" {[card.units for card in history.table.cards]}, steps:\n  {steps}"
            ) from error
