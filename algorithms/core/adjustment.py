"""Adjustments of time series at a silo before learning: trend, season, first differences.

Columns of labels, such as states and alarms, stay as they are. Each unbroken stretch is adjusted separately. The silo
subtracts the least-squares fit of the stretch on time and on the phases of the period, but keeps the means. It can then
replace rows by their differences, which removes the first row of each stretch. The subtracted components stay in the
silo. Forecasts of a model of adjusted series are in the original units: `Adjustment.forecast` adjusts the given past,
and adds the subtracted components to the forecast.

The fit needs only sums over the rows of a stretch by phase (`StretchSums`), so a stretch may be read in pieces. The
slope is fitted to the deviations of numbers and times from the means of their phases (Frisch & Waugh 1933).
"""

import math
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
COLLINEAR = 1e-12
"""the spread of the times about their phase means counts as zero up to this share of the sum of squared times"""


@dataclass(frozen=True)
class StretchFit:
    """The trend and the season of a stretch, and the means of its columns."""

    phases: FloatArray
    """for each phase of the season, its fitted value without the trend, `[period, d]`"""
    slopes: FloatArray
    """the increase of the trend from row to row, `[d]`"""
    means: FloatArray
    """the means of the columns, `[d]`"""

    def at(self, begin: int, end: int) -> FloatArray:
        """The fitted rows with the times `begin`, ..., `end` − 1 in the stretch, `[end - begin, d]`."""
        times = np.arange(begin, end)
        return np.asarray(self.phases[times % len(self.phases)] + times[:, None] * self.slopes)

    def subtracted(self, rows: FloatArray, begin: int) -> FloatArray:
        """The `rows` `[n, d]` of the stretch from time `begin` on, without trend and season, but with its means."""
        return np.asarray(rows - (self.at(begin, begin + len(rows)) - self.means))


class StretchSums:
    """Sums over the rows of one stretch by the phases of a season, from which trend and season are fitted.

    The sums of a column omit its empty cells (NaN). The first value of the column is subtracted from all others, which
    keeps rounding errors small for numbers far from zero.
    """

    def __init__(self, columns: int, period: int, *, trend: bool) -> None:
        """Start without rows, for this number of `columns`; a `period` of 0 means a single phase."""
        shape = max(period, 1), columns
        self._origin, self._trend, self._rows = np.full(columns, np.nan), trend, 0
        self._counts, self._times, self._squares, self._values, self._products = (np.zeros(shape) for _ in range(5))

    def add(self, rows: FloatArray) -> None:
        """Add the next rows `[n, d]`."""
        known, times = ~np.isnan(rows), np.arange(self._rows, self._rows + len(rows), dtype=np.float64)[:, None]
        first = rows[known.argmax(axis=0), np.arange(rows.shape[1])]
        self._origin = np.where(np.isnan(self._origin), first, self._origin)
        values = np.where(known, rows - self._origin, 0.0)
        self._counts += self._by_phase(known.astype(np.float64))
        self._values += self._by_phase(values)
        if self._trend:
            self._times += self._by_phase(known * times)
            self._squares += self._by_phase(known * times**2)
            self._products += self._by_phase(values * times)
        self._rows += len(rows)

    def _by_phase(self, numbers: FloatArray) -> FloatArray:
        """The sums of the `numbers` `[n, d]` of the next rows, by phase, `[period, d]`."""
        period = len(self._counts)
        if period == 1:
            return np.asarray(numbers.sum(axis=0, keepdims=True))
        before = self._rows % period
        padded = np.pad(numbers, [(before, -(before + len(numbers)) % period), (0, 0)])
        return np.asarray(padded.reshape(-1, period, numbers.shape[1]).sum(axis=0))

    def fit(self) -> StretchFit:
        """The least-squares fit to the rows so far; a phase in which all cells are empty gets the mean."""
        counts, origin = np.maximum(self._counts, 1.0), np.nan_to_num(self._origin)
        times, values, slopes = self._times / counts, self._values / counts, np.zeros(len(origin))
        if self._trend:
            spread = (self._squares - self._counts * times**2).sum(axis=0)
            shared = (self._products - self._counts * times * values).sum(axis=0)
            known = spread > COLLINEAR * self._squares.sum(axis=0)
            slopes = np.divide(shared, spread, out=slopes, where=known)
        means = self._values.sum(axis=0) / np.maximum(self._counts.sum(axis=0), 1.0) + origin
        phases = np.where(self._counts > 0, values - times * slopes + origin, means)
        return StretchFit(phases, slopes, means)


@dataclass(frozen=True)
class Adjustment:
    """How a silo adjusts each stretch of its series; by default not at all."""

    detrend: bool = False
    """subtract a linear trend"""
    period: int = 0
    """number of rows of a seasonal period, whose phase means are subtracted; 0 means no season"""
    difference: bool = False
    """replace rows by their differences from the row before"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a negative period and for a period of one row."""
        if self.period < 0 or self.period == 1:
            raise BadInput(f"--deseasonalise {self.period}: a period has 2 rows or more")

    def __bool__(self) -> bool:
        return self.fits or self.difference

    @property
    def fits(self) -> bool:
        """Whether a trend or a season is fitted to each stretch."""
        return self.detrend or self.period > 0

    @property
    def min_rows(self) -> int:
        """The minimum number of rows of a stretch for this adjustment."""
        return max(MIN_TREND_ROWS * self.detrend, MIN_PERIODS * self.period, 2 * self.difference)

    @property
    def description(self) -> str:
        """The adjustment in words; empty if nothing is adjusted."""
        parts = ["linear trends"] * self.detrend + [f"seasons of {self.period} rows"] * (self.period > 0)
        subtracted = f"{' and '.join(parts)} subtracted in each series" if parts else ""
        return "; ".join([subtracted] * bool(parts) + ["differences of consecutive rows"] * self.difference)

    @property
    def options(self) -> str:
        """The options of the command line for this adjustment."""
        period = [f"--deseasonalise {self.period}"] * (self.period > 0)
        return " ".join(["--detrend"] * self.detrend + period + ["--difference"] * self.difference)

    def __or__(self, other: "Adjustment") -> "Adjustment":
        """Both adjustments together. If both have a season, the period is the least common multiple of both periods."""
        period = math.lcm(self.period, other.period) if self.period and other.period else self.period + other.period
        return Adjustment(self.detrend or other.detrend, period, self.difference or other.difference)

    def sums(self, columns: int) -> StretchSums:
        """Empty sums, with which to fit the components to a stretch of this number of `columns`."""
        return StretchSums(columns, self.period, trend=self.detrend)

    def adjusted(self, table: FloatArray, stretches: Sequence[int], labels: Sequence[int] = ()) -> FloatArray:
        """The adjusted rows of `table` `[n_rows, d]`, whose unbroken `stretches` have these lengths.

        The columns `labels` have codes of labels, which are not adjusted. With `difference`, they lose the first row of
        each stretch, like all columns.
        """
        parts, numbers = [], np.delete(np.arange(table.shape[1]), labels)
        for part in np.split(table, np.cumsum(stretches)[:-1]):
            found = part[1:].copy() if self.difference else part.copy()
            if len(part):
                own = part[:, numbers]
                flat = self._fitted(own).subtracted(own, 0)
                found[:, numbers] = np.diff(flat, axis=0) if self.difference else flat
            parts.append(found)
        return np.concatenate(parts)

    def forecast(self, past: FloatArray, predict: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The forecast `[d]` of the row after `past` `[n_rows, d]`, in the original units.

        `predict` forecasts the next adjusted row, or the next difference, from adjusted rows. Raises `ValueError` if
        the past is too short to adjust.
        """
        n = len(past)
        if n < self.min_rows:
            raise ValueError(f"a forecast of adjusted series needs a past of {self.min_rows} rows or more, not {n}")
        fitted = self._fitted(past)
        flat = fitted.subtracted(past, 0)
        found = predict(np.diff(flat, axis=0)) + flat[-1] if self.difference else predict(flat)
        return np.asarray(found + fitted.at(n, n + 1)[0] - fitted.means)

    def _fitted(self, part: FloatArray) -> StretchFit:
        """The trend and the season fitted to the stretch `part` `[n, d]`."""
        sums = self.sums(part.shape[1])
        sums.add(part)
        return sums.fit()


NO_ADJUSTMENT = Adjustment()
