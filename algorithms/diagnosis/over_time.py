"""Trend and season in a silo's series; the silo reports the strongest trend and season of its columns.

- Trend: the t-value of the time in a regression of each row on the time, the row before and its change. Because the
  regression includes the past, the test is valid for autocorrelated series. A series that hardly returns to its trend
  counts as having no trend.
- Season: the largest ratio of a value of the periodogram to the mean of its neighbours. Trend and autoregression are
  removed before; they have no spectral lines. Without a season, the ratio at a frequency is an F-value with 2 and
  2·(number of neighbours) degrees of freedom. The highest peak may be a harmonic, so the period is the whole number
  near the peak's period, or near a multiple of it, whose means by phase have the best BIC. If a season is left without
  these means, as with days beside weeks, the period is that of both seasons together.

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
LINE, MAX_T = 2e6, 1e6
"""the reported t-value of the time in a straight line, and its maximum in other columns"""
NO_SPREAD = 1e-9
"""spread, relative to the values, that is only rounding"""
MIN_PEAK = 60.0
"""minimum ratio of a peak to its neighbours for a season"""
MAX_MULTIPLE = 24
"""maximum ratio of the period of a season to that of its highest peak"""
MIN_JOINT_CYCLES = 3
"""minimum number of cycles of two seasons together"""
MIN_CYCLES = 8
"""minimum number of cycles of a season in the stretch; slower waves cannot be distinguished from drift"""


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
    """The absolute t-value of the time in each column of `rows` `[n, d]`, at most `MAX_T`.

    It is 0 if the column is slow or constant, or if there are few rows, and `LINE` for a straight line. The past in the
    regression is the deviation from the trend, in standard deviations. So neither the unit of a column nor a steep
    trend makes the regression numerically imprecise.
    """
    n, d = rows.shape
    found = np.zeros(d)
    if n < MIN_ROWS:
        return found
    times = np.linspace(-1, 1, n)
    for j in range(d):
        spread = float(rows[:, j].std())
        if spread <= NO_SPREAD * max(float(np.abs(rows[:, j]).max()), 1e-300):
            continue
        centred = (rows[:, j] - rows[:, j].mean()) / spread
        slope = float(times @ centred / (times @ times))
        rest = centred - slope * times
        unit = float(rest.std())
        if unit <= NO_SPREAD:
            found[j] = LINE
            continue
        rest, slope = rest / unit, slope / unit
        change = np.diff(rest)
        design = np.column_stack([times[1:-1], np.ones(n - 2), rest[1:-1], change[:-1]])
        inverse = np.linalg.pinv(design.T @ design)
        beta = inverse @ (design.T @ change[1:])
        error = ((change[1:] - design @ beta) ** 2).sum() / (n - 2 - design.shape[1])
        if beta[2] < -MIN_RETURN:
            of_time = np.array([1.0, 0.0, -slope, 0.0])
            variance = error * (of_time @ inverse @ of_time)
            found[j] = min(abs(of_time @ beta) / np.sqrt(max(variance, 1e-300)), MAX_T)
    return found


def seasons(rows: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """The ratio of the highest peak of each column to its neighbours, and the period of its season; 0 without season.

    `rows` is `[n, d]`, and both results are `[d]`.
    """
    n, d = rows.shape
    ratios, periods = np.zeros(d), np.zeros(d, np.int64)
    if n < MIN_ROWS:
        return ratios, periods
    for j in range(d):
        detrended = _detrended(rows[:, j])
        if detrended.std() <= NO_SPREAD * rows[:, j].std():
            continue  # a straight line, of which only rounding is left
        series = _without_autoregression(detrended)
        peak, ratios[j] = _highest(series)
        if ratios[j] > MIN_PEAK:
            periods[j] = _joint_period(series, n / peak)
    return ratios, periods


def _joint_period(series: FloatArray, about: float) -> int:
    """The period of a `series` whose highest peak has a period of `about`, and of a further season, if there is one."""
    n = len(series)
    period = _period(series, about)
    rest = series - _phase_means(series, period)
    peak, ratio = _highest(rest)
    if ratio <= MIN_PEAK or rest.std() <= NO_SPREAD * series.std():
        return period
    both = int(np.lcm(period, _period(rest, n / peak)))
    return both if both * MIN_JOINT_CYCLES <= n else period


def _detrended(series: FloatArray) -> FloatArray:
    """`series` without its level and linear trend."""
    centred = series - series.mean()
    times = np.linspace(-1, 1, len(series))
    return np.asarray(centred - times * (times @ centred) / (times @ times))


def _without_autoregression(series: FloatArray) -> FloatArray:
    """The detrended `series` without autoregression."""
    for _ in range(MAX_FILTERS):
        past = series[:-1]
        slope = float(past @ series[1:]) / max(float(past @ past), 1e-300)
        series = series[1:] - slope * past
        if abs(slope) < MAX_SLOPE:
            break
    return np.asarray(series)


def _highest(series: FloatArray) -> tuple[int, float]:
    """The frequency whose power is highest relative to its neighbours, and this ratio; 0 and 0 for too few rows."""
    power = np.abs(np.fft.rfft(series * np.hanning(len(series)))) ** 2
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
    """The whole number near `about` that fits a `series` best as a period, or near a multiple of it with a better BIC.

    Near one period, the F-value of the means by phase decides, because BIC prefers fewer phases in noise.
    """
    n = len(series)
    near = [range(max(2, int(about * 0.85)), int(np.ceil(about * 1.15)) + 1)]
    near += [range(round(k * about) - 1, round(k * about) + 2) for k in range(2, MAX_MULTIPLE + 1)]
    tried = [max(some, key=lambda period: _f_value(series, period)) for some in near if some[0] * MIN_CYCLES <= n]
    return min(tried or [max(2, round(about))], key=lambda period: _bic(series, period))


def _f_value(series: FloatArray, period: int) -> float:
    """The F-value of the means by phase of a `period`."""
    n = len(series)
    total, left = _total_and_left(series, period)
    return (total - left) / (period - 1) / max(left / max(n - period, 1), 1e-300)


def _bic(series: FloatArray, period: int) -> float:
    """The BIC of means by phase: n times ln of the share of the variance that they leave, and ln n for each mean."""
    n = len(series)
    total, left = _total_and_left(series, period)
    return n * float(np.log(max(left / max(total, 1e-300), NO_SPREAD))) + period * float(np.log(n))


def _total_and_left(series: FloatArray, period: int) -> tuple[float, float]:
    """The sums of squares of a `series` about its mean and about its means by phase."""
    total = float(((series - series.mean()) ** 2).sum())
    return total, float(((series - _phase_means(series, period)) ** 2).sum())


def _phase_means(series: FloatArray, period: int) -> FloatArray:
    """The mean of the rows of the same phase, for each row, `[n]`."""
    phases = np.arange(len(series)) % period
    return np.asarray((np.bincount(phases, series) / np.bincount(phases))[phases])
