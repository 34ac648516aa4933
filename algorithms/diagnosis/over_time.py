"""Trend and season in a silo's series; the silo reports the strongest trend and season of its columns (ours).

- Trend: the t-value of the time in a regression of each row on the time, the row before and its change. Because the
  regression includes the past, the test is valid for autocorrelated series. A series that hardly returns to its trend
  counts as having no trend.
- Season: the largest ratio of a value of the periodogram to the mean of its neighbours, after removal of trend and
  autoregression, which have no spectral lines. Without a season, this ratio is an F-value with 2 and 2·(number of
  neighbours) degrees of freedom. The period of a season is the whole number near the peak whose phase means explain
  most.

Both tests use only the longest stretch.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray

MIN_ROWS = 40
"""minimum number of rows of a stretch for tests of trend and season"""
NEIGHBOURS, GUARD = 10, 2
"""number of frequencies on each side with which a peak is compared, and number of nearest frequencies to skip"""
MIN_RETURN = 0.15
"""minimum share of its distance from the trend by which a series returns in a step; slower series have no trend"""
MAX_SLOPE, MAX_FILTERS = 0.5, 4
"""slope below which an autoregression is not removed again, and maximum number of removals"""
MIN_PEAK = 60.0
"""minimum ratio of a peak to its neighbours for a season"""
MIN_CYCLES = 8
"""minimum number of cycles of a season in the stretch: slower waves cannot be distinguished from drift"""


def longest_stretch(table: FloatArray, lengths: tuple[int, ...]) -> FloatArray:
    """The rows of the longest stretch of `table` `[n_rows, d]`."""
    ends = np.cumsum(lengths)
    at = int(np.argmax(lengths))
    return table[ends[at] - lengths[at] : ends[at]]


def interpolated(rows: FloatArray) -> FloatArray:
    """The series `rows` `[n, d]` with linear interpolation of empty cells (NaN); 0 in a column without cells."""
    if not np.isnan(rows).any():
        return rows
    times, filled = np.arange(len(rows)), np.zeros_like(rows)
    for j in range(rows.shape[1]):
        known = np.flatnonzero(~np.isnan(rows[:, j]))
        if len(known):
            filled[:, j] = np.interp(times, known, rows[known, j])
    return filled


def trend_t_values(rows: FloatArray) -> FloatArray:
    """The absolute t-value of the time in each column of `rows` `[n, d]`; 0 if the column is slow or rows are few."""
    n, d = rows.shape
    found = np.zeros(d)
    if n < MIN_ROWS:
        return found
    change = np.diff(rows, axis=0)
    times = np.linspace(-1, 1, n - 2)
    for j in range(d):
        design = np.column_stack([times, np.ones(n - 2), rows[1:-1, j], change[:-1, j]])
        if rows[:, j].std() <= 1e-9 * max(np.abs(rows[:, j]).max(), 1e-300):
            continue
        inverse = np.linalg.pinv(design.T @ design)
        beta = inverse @ (design.T @ change[1:, j])
        error = ((change[1:, j] - design @ beta) ** 2).sum() / (n - 2 - design.shape[1])
        if beta[2] < -MIN_RETURN:
            found[j] = abs(beta[0]) / np.sqrt(max(error * inverse[0, 0], 1e-300))
    return found


def seasons(rows: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """By column of `rows` `[n, d]`, the ratio of the highest peak to its neighbours, and its period, 0 if no season."""
    n, d = rows.shape
    ratios, periods = np.zeros(d), np.zeros(d, np.int64)
    if n < MIN_ROWS:
        return ratios, periods
    for j in range(d):
        series = _flat(rows[:, j])
        power = np.abs(np.fft.rfft(series * np.hanning(len(series)))) ** 2
        peak, ratios[j] = _highest(power)
        if ratios[j] > MIN_PEAK:
            periods[j] = _period(rows[:, j], n / peak)
    return ratios, periods


def _flat(series: FloatArray) -> FloatArray:
    """`series` without trend and autoregression."""
    centred = series - series.mean()
    times = np.linspace(-1, 1, len(series))
    centred = centred - times * (times @ centred) / (times @ times)
    for _ in range(MAX_FILTERS):
        past = centred[:-1]
        slope = float(past @ centred[1:]) / max(float(past @ past), 1e-300)
        centred = centred[1:] - slope * past
        if abs(slope) < MAX_SLOPE:
            break
    return np.asarray(centred)


def _highest(power: FloatArray) -> tuple[int, float]:
    """The frequency whose power is highest relative to its neighbours, and this ratio; 0 and 0 for too few rows."""
    tried, reach = np.arange(MIN_CYCLES, len(power) - 1), NEIGHBOURS + GUARD
    if not len(tried):
        return 0, 0.0

    def near(values: FloatArray) -> FloatArray:
        """The sums of `values` over the neighbours of each frequency that is tried; frequency 0 is no neighbour."""
        padded = np.pad(np.concatenate([[0.0], values[1:]]), reach)
        sums = np.lib.stride_tricks.sliding_window_view(padded, NEIGHBOURS).sum(axis=1)
        return np.asarray(sums[tried] + sums[tried + reach + GUARD + 1])

    ratios = power[tried] / np.maximum(near(power) / near(np.ones(len(power))), 1e-300)
    best = int(np.argmax(ratios))
    return int(tried[best]), float(ratios[best])


def _period(series: FloatArray, about: float) -> int:
    """The whole period near `about` whose phase means explain most of `series`, relative to the number of phases."""
    n = len(series)
    total = float(((series - series.mean()) ** 2).sum())
    best, highest = max(2, round(about)), -np.inf
    for period in range(max(2, int(about * 0.85)), int(np.ceil(about * 1.15)) + 1):
        phases = np.arange(n) % period
        counts = np.bincount(phases)
        explained = float((counts * (np.bincount(phases, series) / counts - series.mean()) ** 2).sum())
        value = explained / (period - 1) / max((total - explained) / max(n - period, 1), 1e-300)
        if value > highest:
            best, highest = period, value
    return best
