"""The windows of a silo's series that are compared with other silos, and the rows for tests of trend and season.

Moments are sums over all windows. Long-run variances and tests for weights that change need windows in memory and in
the order of time. For series in memory, they use all windows. For series that are read in passes, they use evenly
spaced windows. For such series, the test for a trend uses evenly spaced rows of the longest stretch, and the test for a
season uses the first `SEASON_ROWS` rows of this stretch. `PASSES_NOTE` informs the user.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..core.schema import FloatArray, Schema
from ..statistics.coding import coding_of
from ..statistics.expected_moments import centred_windows_with_gaps
from ..statistics.lagged import centred_window_passes, centred_windows, windows
from ..statistics.moments import Chunked, Table, about_means, column_summaries
from .change import relative_times
from .over_time import MIN_CYCLES, interpolated, longest_stretch

SAMPLE_CELLS, MIN_SAMPLE_ROWS = 1 << 20, 20_000
"""number of cells, and minimum number of windows, that are sampled from series that are read in passes"""
SEASON_ROWS = 50_000
"""for series that are read in passes, maximum number of rows in the tests for a season and for a trend"""
SEASONAL_FACTORS = 2 * 3 * 5 * 7
"""product of the prime factors that periods of seasons often have; the distance between sampled windows has none"""
PASSES_NOTE = (
    "reads its series in passes: outliers, trends, curved effects and weights that differ or change are looked for in "
    f"evenly spaced windows, seasons of at most {SEASON_ROWS // MIN_CYCLES:,} rows in the first {SEASON_ROWS:,} rows "
    "of its longest series"
)
"""the note on a silo whose series are read in passes; it follows the name of the silo"""


@dataclass(frozen=True)
class SeriesRows:
    """Windows of a silo, and the moments of all its windows; the first d of the m columns are the present ones."""

    windows: FloatArray
    """the windows to compare, shifted from their series' means to the silo's means, in the order of time, `[n, m]`"""
    times: FloatArray
    """the relative time of each of these windows, `[n]`"""
    count: int
    """the number of all windows"""
    means: FloatArray
    """the means of all windows, `[m]`"""
    products: FloatArray
    """summed second moments of all windows about the means of their series, `[m, m]`"""
    beginning: FloatArray
    """the longest stretch without gaps, or its first rows, `[n_rows, d]`"""
    spaced: FloatArray
    """the longest stretch without gaps, or evenly spaced rows of this stretch, `[n_rows, d]`"""


def series_rows(table: Table, schema: Schema, silo: str, lags: int) -> SeriesRows:
    """The windows of the series `table` `[n_rows, d]` of `silo`, coded.

    As in learning, every series is shifted to the silo's means. Different levels, for example on the two sides of a
    gap, would otherwise look like random walks and curved effects.
    """
    if not isinstance(table, np.ndarray):
        return _in_passes(table, schema, silo, lags)
    stretches = schema.stretches[silo]
    coded = coding_of(schema).rows(np.asarray(table, np.float64))
    if schema.gaps:
        rows, products = centred_windows_with_gaps(coded, schema, silo, lags)
        means = column_summaries(windows(coded, stretches, lags)).means
        rows += means
    else:
        rows = centred_windows(coded, stretches, lags) + windows(coded, stretches, lags).mean(axis=0)
        means, products = about_means(rows)
    longest = interpolated(longest_stretch(coded, stretches))
    times = relative_times([max(length - lags, 0) for length in stretches])
    return SeriesRows(rows, times, len(rows), means, products, longest, longest)


def _in_passes(table: Chunked, schema: Schema, silo: str, lags: int) -> SeriesRows:
    """As `series_rows`, for series that are read in passes."""
    stretches, d = schema.stretches[silo], table.shape[1]
    rows = centred_window_passes(table, stretches, lags)
    count, m = rows.shape
    step = spacing(count, max(SAMPLE_CELLS // m, MIN_SAMPLE_ROWS))
    lengths = np.maximum(np.array(stretches) - lags, 0)
    longest = int(np.argmax(lengths))
    begin = int(lengths[:longest].sum())
    end, every = begin + int(lengths[longest]), spacing(int(lengths[longest]), SEASON_ROWS)
    read, sample, first, spaced = 0, list[FloatArray](), list[FloatArray](), list[FloatArray]()
    for chunk in rows:
        numbers = np.arange(read, read + len(chunk))
        read += len(chunk)
        sample.append(chunk[numbers % step == 0])
        own = (numbers >= begin) & (numbers < end)
        first.append(chunk[own & (numbers < begin + SEASON_ROWS), :d])
        spaced.append(chunk[own & ((numbers - begin) % every == 0), :d])
    chosen = np.arange(0, count, step)
    begins = np.cumsum(lengths) - lengths
    stretch = np.searchsorted(begins, chosen, side="right") - 1
    times = (chosen - begins[stretch] + 0.5) / lengths[stretch]
    compared = np.concatenate(sample)
    compared += rows.mean
    return SeriesRows(
        compared,
        times,
        count,
        rows.mean,
        rows.products,
        np.concatenate(first),
        np.concatenate(spaced),
    )


def spacing(rows: int, most: int) -> int:
    """The smallest distance at which at most `most` of `rows` are sampled, without a factor of `SEASONAL_FACTORS`."""
    step = max(-(-rows // most), 1)
    while math.gcd(step, SEASONAL_FACTORS) > 1:
        step += 1
    return step
