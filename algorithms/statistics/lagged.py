"""Windows of time series: each row together with the rows before it.

Series in memory and series that are read in passes have the same windows: `WindowPasses` adds the last rows of the
preceding chunk to each chunk. No window spans two unbroken stretches, wherever the chunks end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import Broadcast, FederatedAlgorithm, Reply, Server, Silo
from ..core.schema import FloatArray, ImputationModel, Schema
from ..errors import BadInput
from ..graphs.structure import unrolled_names
from .moments import CentredMoments, Chunked, Table, column_summaries, products

LEVEL_STANDARD_ERRORS = 5.0
"""a mean that exceeds this number of its standard errors is a level, such as the offset of a site"""
AUTOCORRELATION_ROWS = 40
"""for its mean, a series of n rows counts as n/(1 + AUTOCORRELATION_ROWS/n) independent rows, because it may drift"""


def windows(table: NDArray[Any], stretches: Sequence[int], lags: int) -> NDArray[Any]:
    """Windows `[n_windows, (lags + 1)·d]` of `table` `[n_rows, d]`: each row with the `lags` rows before it.

    The rows of `table` are unbroken stretches of the lengths `stretches`, one after another; no window spans two
    stretches. A stretch of at most `lags` rows has no window. In the notation of Chen, Ma & Yue (2025, §2), the first d
    columns are X and the other columns are Y. Raises `ValueError` if the stretches do not have the rows of `table`.
    """
    ends = np.cumsum(stretches, dtype=np.int64)
    if int(ends[-1]) != len(table):
        raise ValueError(f"stretches of {int(ends[-1])} rows for a table of {len(table)}")
    times = np.concatenate([np.arange(end - length + lags, end) for end, length in zip(ends, stretches, strict=True)])
    return np.hstack([table[times - lag] for lag in range(lags + 1)])


MAX_WINDOW_CELLS = 1 << 19
"""maximum number of cells of a chunk of windows, which then fits into a processor's cache"""


@dataclass(frozen=True)
class WindowPasses:
    """The `windows` of series that are read in passes, minus `shift`: a `Chunked` table `[n_windows, (lags + 1)·d]`."""

    table: Chunked
    stretches: tuple[int, ...]
    lags: int
    shift: FloatArray | float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Windows and their columns."""
        return sum(max(length - self.lags, 0) for length in self.stretches), self.table.shape[1] * (self.lags + 1)

    def __iter__(self) -> Iterator[FloatArray]:
        for rows, _ in self.numbered():
            yield rows

    def numbered(self) -> Iterator[tuple[FloatArray, NDArray[np.intp]]]:
        """Yield chunks of windows, each with the number of the stretch of every window."""
        begins = np.cumsum((0, *self.stretches), dtype=np.int64)[:-1]
        read, before = 0, np.empty((0, self.table.shape[1]))
        size = max(MAX_WINDOW_CELLS // self.shape[1], self.lags, 1)
        for chunk in (all_rows[at : at + size] for all_rows in self.table for at in range(0, len(all_rows), size)):
            rows = np.concatenate([before, chunk])
            numbers = np.arange(read, read + len(chunk))
            stretch = np.searchsorted(begins, numbers, side="right") - 1
            present = np.flatnonzero(numbers - begins[stretch] >= self.lags)
            read, times = read + len(chunk), present + len(before)
            before = rows[max(len(rows) - self.lags, 0) :]
            if len(times):
                found = np.hstack([rows[times - lag] for lag in range(self.lags + 1)])
                yield found - self.shift, stretch[present]


def windows_of(table: Table, stretches: Sequence[int], lags: int) -> Table:
    """`windows` of `table` `[n_rows, d]`, which are read in passes if `table` is."""
    if isinstance(table, np.ndarray):
        return windows(table, stretches, lags)
    return WindowPasses(table, tuple(stretches), lags)


def silo_windows(table: Table, schema: Schema, silo: str, lags: int, *, center: bool) -> Table:
    """The windows `[n_windows, (lags + 1)·d]` of the rows `table` of `silo`; without levels if `center` is set.

    Levels are defined in `subtract_levels`.
    """
    rows, d = windows_of(table, schema.stretches[silo], lags), table.shape[1]
    if isinstance(rows, WindowPasses):
        return replace(rows, shift=_levels(rows, d)) if center else rows
    assert isinstance(rows, np.ndarray)
    return subtract_levels(rows, d) if center else rows


def subtract_levels(rows: FloatArray, d: int) -> FloatArray:
    """Windows `[n_windows, (lags + 1)·d]` without the means of the variables that have a level.

    A level is a mean of more than `LEVEL_STANDARD_ERRORS` standard errors, such as a site or instrument offset. Other
    means are not subtracted, because subtracting a mean from a short series biases the effects of its past by about
    −1/n (Nickell 1981).
    """
    return np.asarray(rows - _levels(rows, d))


def _levels(rows: Table, d: int) -> FloatArray:
    """The means that `subtract_levels` subtracts from windows of d variables; 0 without a level, `[(lags + 1)·d]`."""
    n, columns = rows.shape
    found = column_summaries(rows)
    limits = LEVEL_STANDARD_ERRORS**2 * found.variances[:d] * (1 + AUTOCORRELATION_ROWS / n) / n
    has_level = found.means[:d] ** 2 > limits
    return np.where(np.tile(has_level, columns // d), found.means, 0.0)


MIN_CENTRED_WINDOWS = 20
"""minimum number of windows of a stretch that is centred on its own means; a silo's shorter stretches share means"""


def centred_windows(table: FloatArray, stretches: Sequence[int], lags: int) -> FloatArray:
    """`windows` minus means: every long stretch has its own means, and the short stretches have common means.

    Series of different devices or patients have different levels, and a level that is not subtracted looks like an
    effect of all lags. Subtracting the means of few windows would also remove part of the effects (Nickell 1981).
    """
    rows = windows(table, stretches, lags)
    for part in centred_parts(stretches, lags):
        rows[part] -= rows[part].mean(axis=0)
    return rows


@dataclass(frozen=True)
class CentredWindowPasses:
    """The `centred_windows` of series that are read in passes: a `Chunked` table, and its second moments.

    The means of a stretch that lies within one chunk are computed again in each pass. So memory grows at most with the
    number of chunks.
    """

    windows: WindowPasses
    products: FloatArray
    """summed second moments about the means, `[m, m]`"""
    means: dict[int, FloatArray]
    """the means of the long stretches that several chunks share, by number of the stretch, `[m]` each"""
    common: FloatArray
    """the common means of the short stretches, `[m]`"""
    mean: FloatArray
    """the means of all windows, `[m]`"""

    @property
    def shape(self) -> tuple[int, int]:
        """Windows and their columns."""
        return self.windows.shape

    def __iter__(self) -> Iterator[FloatArray]:
        for rows, stretch in self.windows.numbered():
            yield self.centred(rows, stretch)

    def centred(self, rows: FloatArray, stretch: NDArray[np.intp]) -> FloatArray:
        """The chunk of windows `rows` about their means; `stretch` has the number of the stretch of each window."""
        numbers, counts, means = _stretch_means(rows, stretch)
        lengths = np.array(self.windows.stretches)[numbers] - self.windows.lags
        for at in np.flatnonzero((lengths < MIN_CENTRED_WINDOWS) | (counts < lengths)):
            means[at] = self.common if lengths[at] < MIN_CENTRED_WINDOWS else self.means[int(numbers[at])]
        return np.asarray(rows - np.repeat(means, counts, axis=0))


def _stretch_means(
    rows: FloatArray, stretch: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.int64], FloatArray]:
    """The numbers of the stretches in a chunk of windows `[n, m]`, and the count and means of each one's windows."""
    begins = np.flatnonzero(np.diff(stretch, prepend=-1))
    counts = np.diff(np.append(begins, len(rows)))
    means = np.add.reduceat(rows, begins, axis=0) / counts[:, None]
    # The second step removes the rounding of sums of numbers far from zero.
    means += np.add.reduceat(rows - np.repeat(means, counts, axis=0), begins, axis=0) / counts[:, None]
    return stretch[begins], counts, means


def _centred(rows: WindowPasses) -> CentredWindowPasses:
    m = rows.shape[1]
    total, common, means = np.zeros((m, m)), CentredMoments.of_nothing(m), dict[int, FloatArray]()
    shared, read, mean = dict[int, CentredMoments](), 0, np.zeros(m)
    for chunk, stretch in rows.numbered():
        numbers, counts, own_means = _stretch_means(chunk, stretch)
        lengths, ends = np.array(rows.stretches)[numbers] - rows.lags, np.cumsum(counts)
        within = (lengths >= MIN_CENTRED_WINDOWS) & (counts == lengths)
        centred = (chunk - np.repeat(own_means, counts, axis=0))[np.repeat(within, counts)]
        total += centred.T @ centred
        read += len(chunk)
        mean += (counts @ (own_means - mean)) / read
        for at in np.flatnonzero(~within):
            number, part = int(numbers[at]), CentredMoments.of(chunk[ends[at] - counts[at] : ends[at]])
            if lengths[at] < MIN_CENTRED_WINDOWS:
                common = common.with_rows(part)
                continue
            merged = shared.pop(number).with_rows(part) if number in shared else part
            if merged.rows < lengths[at]:
                shared[number] = merged
            else:
                total += merged.total
                means[number] = merged.means
    return CentredWindowPasses(rows, total + common.total, means, common.means, mean)


def centred_window_passes(table: Chunked, stretches: Sequence[int], lags: int) -> CentredWindowPasses:
    """The `centred_windows` of series `table` `[n_rows, d]` that are read in passes, after one pass."""
    return _centred(WindowPasses(table, tuple(stretches), lags))


def window_moments(table: Table, stretches: Sequence[int], lags: int, *, center: bool) -> tuple[Table, FloatArray]:
    """The windows of `table` `[n_rows, d]`, as in `centred_windows` with `center`, and their summed second moments.

    The windows are read in passes if `table` is, with one pass for the moments.
    """
    if isinstance(table, np.ndarray):
        rows = (centred_windows if center else windows)(table, stretches, lags)
        return rows, rows.T @ rows
    if not center:
        passes = WindowPasses(table, tuple(stretches), lags)
        return passes, products(passes)
    centred = centred_window_passes(table, stretches, lags)
    return centred, centred.products


def centred_means(stretches: Sequence[int], lags: int) -> int:
    """The number of means that `centred_windows` subtracts from a column, which are lost degrees of freedom."""
    return len(centred_parts(stretches, lags))


def centred_parts(stretches: Sequence[int], lags: int) -> list[NDArray[np.intp]]:
    """The parts of the windows that have common means, each as the numbers of its windows."""
    lengths = np.array([max(length - lags, 0) for length in stretches])
    numbers = np.split(np.arange(lengths.sum()), np.cumsum(lengths)[:-1])
    long = [part for part in numbers if len(part) >= MIN_CENTRED_WINDOWS]
    short = np.concatenate([np.empty(0, np.intp), *(part for part in numbers if len(part) < MIN_CENTRED_WINDOWS)])
    return [*long, short] if len(short) else long


def window_schema(schema: Schema, lags: int) -> Schema:
    """The public schema of windows as a table without time: (lags + 1)·d columns, and the windows as rows.

    Its stretches are the parts of a silo's windows that have common means, in the order of `window_rows`. Lagged
    columns have the levels and units of their variable, and the same share of empty cells. Background knowledge of the
    variables is not part of this schema (`Prior.of_windows`).
    """
    names, rows = unrolled_names(schema.variables, lags), schema.windows(lags)
    empty = {
        silo: tuple(round(count * rows[silo] / schema.rows[silo]) for count in counts) * (lags + 1)
        for silo, counts in schema.empty.items()
    }
    owners = dict(zip(names, schema.variables * (lags + 1), strict=True))
    levels = {name: schema.levels[owner] for name, owner in owners.items() if owner in schema.levels}
    return Schema(
        names,
        rows,
        kind="continuous" if not levels else "discrete" if len(levels) == len(names) else "mixed",
        levels=levels,
        stretches={silo: tuple(map(len, centred_parts(schema.stretches[silo], lags))) for silo in schema.rows},
        units=schema.units * (lags + 1),
        empty=empty,
        imputation_model=_window_model(schema, lags),
    )


def over_windows(
    rowwise: FederatedAlgorithm[Server, Silo, Broadcast, Reply], lags: int
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The algorithm for series that works on their windows as `rowwise` works on independent rows."""

    def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        if silo not in schema.stretches:
            raise BadInput("windows are made of time series")
        rows = windows_of(table, schema.stretches[silo], lags)
        return rowwise.open_silo(rows, window_schema(schema, lags), silo, rng)

    units = rowwise.entry_units
    assert units is not None
    return replace(
        rowwise,
        open_silo=open_silo,
        open_server=lambda schema: rowwise.open_server(window_schema(schema, lags)),
        entry_units=lambda schema, request: units(window_schema(schema, lags), request),
    )


def _window_model(schema: Schema, lags: int) -> ImputationModel:
    """The imputation model of windows with `lags`: the margin of the model of the longer windows on which EM has run.

    The effective sample size is proportional to the number of windows.
    """
    model, within = schema.imputation_model, slice((lags + 1) * len(schema.variables))
    if not model.windows:
        return model
    windows = sum(schema.windows(lags).values())
    rows = round(model.rows * windows / model.windows)
    return replace(model, covariance=model.covariance[within, within], rows=rows, windows=windows)


def window_rows(table: NDArray[Any], stretches: Sequence[int], lags: int) -> NDArray[Any]:
    """`windows` of `table`, ordered by the parts that have common means (`window_schema`)."""
    return windows(table, stretches, lags)[np.concatenate(centred_parts(stretches, lags))]


def moments_given_past(S: FloatArray, d: int) -> FloatArray:
    """The second moments `[d, d]` of the residuals of the d variables given all lagged variables, from `S` `[m, m]`.

    The residual of x_t = x_t W + ... + u is u(I − W)⁻¹, so any learner for independent rows can learn W from it.
    """
    return np.asarray(S[:d, :d] - S[:d, d:] @ np.linalg.solve(S[d:, d:], S[d:, :d]))
