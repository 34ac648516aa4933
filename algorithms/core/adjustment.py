"""Adjustments of time series inside a silo, before anything is summed: trend, season, first differences (ours).

Columns of labels, such as states and alarms, stay as they are. Each unbroken stretch is adjusted by itself. Its
least-squares fit on the time and on the phases of the period is subtracted, but not its means; then rows may be
replaced by their differences, which costs the first row of each stretch. What was subtracted stays in the silo. A
model of adjusted series forecasts in the original numbers: `Adjustment.forecast` adjusts the past that it is given,
and adds what it has subtracted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput

FloatArray = NDArray[np.float64]

MIN_TREND_ROWS = 3
"""rows that a trend needs"""
MIN_PERIODS = 2
"""periods that a season needs"""


@dataclass(frozen=True)
class Adjustment:
    """The components subtracted from each stretch of a silo's series; none by default."""

    detrend: bool = False
    """subtract a linear trend"""
    period: int = 0
    """subtract the means of the phases of a season of so many rows; 0: none"""
    difference: bool = False
    """replace rows by their differences from the row before"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a period of less than two rows."""
        if self.period < 0 or self.period == 1:
            raise BadInput(f"--deseasonalise {self.period}: a period has 2 rows or more")

    def __bool__(self) -> bool:
        """Whether anything is adjusted."""
        return self.detrend or self.period > 0 or self.difference

    @property
    def min_rows(self) -> int:
        """The rows of a stretch that the adjustment needs."""
        return max(MIN_TREND_ROWS * self.detrend, MIN_PERIODS * self.period, 2 * self.difference)

    @property
    def description(self) -> str:
        """The subtracted components as a clause; empty if there are none."""
        parts = ["linear trends"] * self.detrend + [f"seasons of {self.period} rows"] * (self.period > 0)
        subtracted = f"{' and '.join(parts)} subtracted in each series" if parts else ""
        return "; ".join([subtracted] * bool(parts) + ["differences of consecutive rows"] * self.difference)

    def adjusted(self, table: FloatArray, stretches: Sequence[int], labels: Sequence[int] = ()) -> FloatArray:
        """The adjusted rows of `table` `[n_rows, d]`, whose unbroken `stretches` have these lengths.

        The columns `labels` have codes of labels, which differences only shorten.
        """
        parts, numbers = [], np.delete(np.arange(table.shape[1]), labels)
        for part in np.split(table, np.cumsum(stretches)[:-1]):
            found = part[1:].copy() if self.difference else part.copy()
            if len(part):
                own = part[:, numbers]
                flat = own - self._fitted(own, len(own)) + own.mean(axis=0)
                found[:, numbers] = np.diff(flat, axis=0) if self.difference else flat
            parts.append(found)
        return np.concatenate(parts)

    def forecast(self, past: FloatArray, predict: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The forecast `[d]` of the row after `past` `[n_rows, d]`, by `predict` of adjusted rows, in original numbers.

        Raises `ValueError` for a past that is too short to adjust.
        """
        n = len(past)
        if n < self.min_rows:
            raise ValueError(f"a forecast of adjusted series needs a past of {self.min_rows} rows or more, not {n}")
        fitted = self._fitted(past, n + 1)
        flat = past - fitted[:n] + past.mean(axis=0)
        found = predict(np.diff(flat, axis=0)) + flat[-1] if self.difference else predict(flat)
        return np.asarray(found + fitted[n] - past.mean(axis=0))

    def _fitted(self, part: FloatArray, rows: int) -> FloatArray:
        """The trend and the season fitted to `part` `[n, d]`, with its means, at `rows` times, `[rows, d]`."""
        times = np.arange(rows, dtype=np.float64)
        columns = [np.ones(rows)] + [times / max(len(part), 1)] * self.detrend
        columns += [(times % self.period == phase).astype(np.float64) for phase in range(1, self.period)]
        design = np.column_stack(columns)
        return np.asarray(design @ np.linalg.lstsq(design[: len(part)], part, rcond=None)[0])


NO_ADJUSTMENT = Adjustment()
