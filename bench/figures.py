"""From samples to rows: percentiles, spreads over rounds, what must hold. Values only.

Rule: what is compared is compared within a round; the median and the range are of the
rounds' ratios, never a ratio of medians.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

EMPTY_PLUGIN = "empty plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One figure over the rounds."""

    median: float
    low: float
    high: float


class Compared(Enum):
    """Which figure of a row a bound is about; the value is the column's heading."""

    OURS = "measured"
    RATIO = "ratio"
    OVER = "over"
    """Ours less the baseline's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What must hold: the median of a figure is at most this."""

    most: float
    of: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured path, ours beside a baseline's."""

    name: str
    unit: str
    ours: Spread
    baseline: Spread | None
    baseline_is: str
    """What it was measured beside, in words; empty where there is none."""
    ratio: Spread | None
    over: Spread | None
    bound: Bound | None
    note: str

    @property
    def bounded(self) -> float | None:
        """The figure that the bound is about."""
        if self.bound is None:
            return None
        spreads = {Compared.RATIO: self.ratio, Compared.OVER: self.over, Compared.OURS: self.ours}
        spread = spreads[self.bound.of]
        return None if spread is None else spread.median

    @property
    def holds(self) -> bool | None:
        """Whether the bound held in this run; None where there is none."""
        if self.bound is None or self.bounded is None:
            return None
        return self.bounded <= self.bound.most


def row(  # noqa: PLR0913  # the columns of the table
    name: str,
    unit: str,
    ours: Sequence[float],
    baseline: Sequence[float] | None = None,
    *,
    baseline_is: str = EMPTY_PLUGIN,
    bound: Bound | None = None,
    note: str = "",
) -> Row:
    """Return the row of these figures, one of each side for each round."""
    pairs = list(zip(ours, baseline, strict=True)) if baseline is not None else []
    ratios = [mine / theirs for mine, theirs in pairs if theirs]
    return Row(
        name=name,
        unit=unit,
        ours=spread(ours),
        baseline=None if baseline is None else spread(baseline),
        baseline_is="" if baseline is None else baseline_is,
        ratio=spread(ratios) if ratios else None,
        over=spread([mine - theirs for mine, theirs in pairs]) if pairs else None,
        bound=bound,
        note=note,
    )


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the range."""
    return Spread(median=statistics.median(values), low=min(values), high=max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
