"""Adjustments of time series inside a silo, before anything is summed: trend, season, first differences (ours).

Columns of labels, such as states and alarms, stay as they are. Each unbroken stretch is adjusted separately. The silo
subtracts the least-squares fit of the stretch on time and on the phases of the period, but keeps the means. It can then
replace rows by their differences, which removes the first row of each stretch. The subtracted components stay in the
silo. Forecasts of a model of adjusted series are in the original units: `Adjustment.forecast` adjusts the given past,
and adds the subtracted components to the forecast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput

FloatArray = NDArray[np.float64]

MIN_TREND_ROWS = 3
"""minimum number of rows of a stretch for a trend"""
MIN_PERIODS = 2
"""minimum number of periods of a stretch for a season"""


@dataclass(frozen=True)
class Adjustment:
    """The components subtracted from each stretch of a silo's series; none by default."""

    detrend: bool = False
    """subtract a linear trend"""
    period: int = 0
    """number of rows of a seasonal period, whose phase means are subtracted; 0: none"""
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
        """The minimum number of rows of a stretch for this adjustment."""
        return max(MIN_TREND_ROWS * self.detrend, MIN_PERIODS * self.period, 2 * self.difference)

    @property
    def description(self) -> str:
        """The subtracted components as a clause; empty if there are none."""
        parts = ["linear trends"] * self.detrend + [f"seasons of {self.period} rows"] * (self.period > 0)
        subtracted = f"{' and '.join(parts)} subtracted in each series" if parts else ""
        return "; ".join([subtracted] * bool(parts) + ["differences of consecutive rows"] * self.difference)

    def adjusted(self, table: FloatArray, stretches: Sequence[int], labels: Sequence[int] = ()) -> FloatArray:
        """The adjusted rows of `table` `[n_rows, d]`, whose unbroken `stretches` have these lengths.

        The columns `labels` have codes of labels; differencing only drops their first rows.
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
