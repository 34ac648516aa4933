"""Moments of columns: the sufficient statistics of everything linear or Gaussian, and units for masked sums of them.

Sums of products and covariances (`products`, `pooled_moments`, `covariance`), a summary of each column
(`column_summaries`), multiples of a power of two, whose sums are exact in any order, in the clear and masked
(`to_multiples`), and the stability of linear models of time series (`spectral_radius`).

`Units` is an exchange before masked runs (ours). Masked numbers have 32 bits before and after the point. Nanometres and
euros fit them in no common unit, and users should not have to choose one. So each silo adds log2 of the standard
deviation of each of its columns to a masked sum; the rounded mean is the exponent of the column's unit. All units are
powers of two, so dividing by them and multiplying again changes no digit.

Tables that are read in passes: a silo's rows may be more than its memory holds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Summand, SumServer, sum_once
from ..core.schema import FloatArray, Schema
from ..graphs.structure import no_edges
from .packing import Block, Packing, triangle


@runtime_checkable
class Chunked(Protocol):
    """Rows that are read anew each time they are iterated over, some at a time: arrays `[n, n_variables]`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Read the rows once more, in the same order and in the same parts."""
        ...


Table = NDArray[Any] | Chunked
"""a silo's rows `[n_rows, n_variables]`, in memory or read in passes"""


def chunks(table: Table) -> Iterator[NDArray[Any]]:
    """Yield the rows of `table`: all at once if they are in memory."""
    if isinstance(table, np.ndarray):
        yield table
    else:
        yield from table


def sum_over_chunks(table: Table, of: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """The sum of what `of` makes of the rows of `table`, part after part."""
    return reduce(add, map(of, chunks(table)))


def thin_rows(table: Table, most: int) -> NDArray[Any]:
    """Rows `[n, n_variables]` for what cannot be summed, such as medians: all of a table that is in memory.

    Of one that is read in passes they are every k-th row, the least k with which there are no more than `most`.
    """
    if isinstance(table, np.ndarray):
        return table
    step, begin, kept = -(-table.shape[0] // most), 0, []
    for rows in chunks(table):
        kept.append(rows[-begin % step :: step].copy())
        begin += len(rows)
    return np.concatenate(kept)


ROUNDING = 1e-12
"""share of the mean square below which a variance is zero up to rounding"""


@dataclass(frozen=True)
class SecondMoments:
    """Second moments S `[d, d]`, and the number of rows behind them."""

    S: FloatArray
    rows: int


def products(table: Table, *, center: bool = False) -> FloatArray:
    """XᵀX of the rows in `table` `[n_rows, d]`, about the columns' own means if `center`: `[d, d]`."""
    return about_means(table)[1] if center else sum_over_chunks(table, lambda X: np.asarray(X.T @ X))


def about_means(table: Table) -> tuple[FloatArray, FloatArray]:
    """The columns' means `[d]`, and the sums of products about them `[d, d]`, of `table` `[n_rows, d]`.

    One pass: each part's products are about its own means, and parts are joined by Chan, Golub, LeVeque 1983
    ("Algorithms for computing the sample variance", Eq. 2.1). Means are subtracted before squaring, so nothing
    cancels, whatever the columns' offsets and the order of the rows.
    """
    rows, means, total = 0, np.zeros(table.shape[1]), np.zeros((table.shape[1],) * 2)
    for part in chunks(table):
        own = part.mean(axis=0)
        X = part - own
        if not rows:
            rows, means, total = len(part), own, np.asarray(X.T @ X)
            continue
        apart, both = own - means, rows + len(part)
        total += X.T @ X
        total += (rows * len(part) / both) * np.outer(apart, apart)
        means = means + apart * (len(part) / both)
        rows = both
    return means, total


def pooled_packing(d: int) -> Packing:
    """The packing of the moments of `d` columns: the number of rows, the sums, and the sums of products."""
    return Packing((Block("rows", ()), Block("sums", (d,)), Block("products", (d, d), symmetric=True)))


def pooled_moments(table: FloatArray) -> FloatArray:
    """Rows, sums and sums of products of `table` `[n_rows, d]` as one vector `[1 + d + d(d + 1)/2]`."""
    d = table.shape[1]
    return pooled_packing(d).pack(rows=float(len(table)), sums=table.sum(axis=0), products=products(table))


def centred_moments(table: Table, lengths: tuple[int, ...]) -> FloatArray:
    """The pooled moments of `table` `[n_rows, d]`, each of its stretches of `lengths` rows about its own means.

    The rows of one silo are a stretch; so is a table that is read in passes. Site offsets carry no information about
    structure, and no mean leaves the silo: the sums are zero. The means cost a degree of freedom a stretch, so rows
    count as n_rows − stretches. As means are subtracted before squaring, rounding leaves a constant column no more than
    `ROUNDING`² of the mean square.
    """
    n, d = table.shape
    total = np.zeros((d, d))
    for part in np.split(table, np.cumsum(lengths)[:-1]) if isinstance(table, np.ndarray) else (table,):
        means, within = about_means(part)
        constant = np.diag(within) <= ROUNDING**2 * (np.diag(within) + part.shape[0] * means**2)
        total += np.where(constant | constant[:, None], 0.0, within)
    return pooled_packing(d).pack(rows=float(n - len(lengths)), sums=np.zeros(d), products=total)


def per_row(moments: FloatArray, all_rows: int) -> FloatArray:
    """Pooled moments with all but the number of rows divided by `all_rows`.

    The numbers sent then do not grow with the rows, and fit the fixed-point numbers of a secure sum.
    """
    return np.concatenate([moments[:1], moments[1:] / all_rows])


def of_all_rows(sent: FloatArray, all_rows: int) -> FloatArray:
    """The pooled moments from a sum of `per_row` moments."""
    return np.concatenate([sent[:1], sent[1:] * all_rows])


def covariance(moments: FloatArray, d: int) -> tuple[int, FloatArray]:
    """The number of rows and the covariance about the mean `[d, d]` from (summed) pooled moments."""
    one = pooled_packing(d).unpack(moments)
    n = one["rows"]
    return int(n), one["products"] / n - np.outer(one["sums"], one["sums"]) / n**2


def correlation(moments: FloatArray, d: int) -> tuple[int, FloatArray]:
    """The number of rows and the correlations `[d, d]` from (summed) pooled moments.

    A column without variance has correlation 0 with all others.
    """
    one = pooled_packing(d).unpack(moments)
    centred = one["products"] - np.outer(one["sums"], one["sums"]) / one["rows"]
    variances = np.diag(centred)
    scale = np.sqrt(np.where(variances > ROUNDING * np.diag(one["products"]), variances, 0))
    both = np.outer(scale, scale)
    correlations: NDArray[np.float64] = np.divide(centred, both, out=np.eye(d), where=both > 0)
    np.fill_diagonal(correlations, 1.0)
    return int(one["rows"]), correlations


def in_own_units(S: FloatArray) -> FloatArray:
    """Second moments `S` `[d, d]` in units of their root mean squares."""
    scale = np.sqrt(np.diag(S))
    return np.asarray(S / np.outer(scale, scale))


def residual_variances(S: FloatArray, weights: FloatArray) -> FloatArray:
    """Each variable's mean squared residual under `weights`, `[d]`, from second moments `S`: above 0.

    `weights` are `[m, d]` and `S` `[m, m]`: d rows for the variables, then those of lagged ones.
    """
    d = weights.shape[1]
    gap = np.eye(len(S), d) - weights
    least = 1e-6 * np.diag(S)[:d]
    return np.asarray(np.maximum(np.einsum("ij,ik,kj->j", gap, S, gap, optimize=True), least))


@dataclass(frozen=True)
class Columns:
    """The columns of a table without their empty cells (NaN), `[n_variables]` each."""

    known: NDArray[np.int64]
    """number of cells that are not empty"""
    means: FloatArray
    squares: FloatArray
    """sums of the squared deviations from the means"""
    greatest: FloatArray
    """the greatest absolute value"""

    @property
    def variances(self) -> FloatArray:
        """The mean squared deviation of each column; 0 for one without any cell."""
        return np.asarray(self.squares / np.maximum(self.known, 1))


def column_summaries(table: Table) -> Columns:
    """The summary of each column of `table` `[n_rows, n_variables]`.

    One pass, whose parts are joined as in Chan, Golub, LeVeque 1983 ("Algorithms for computing the sample variance").
    """
    found: Columns | None = None
    for rows in chunks(table):
        part = _of(rows)
        found = part if found is None else _joined(found, part)
    if found is None:
        raise ValueError("a table without rows has no columns to describe")
    return found


def _of(rows: FloatArray) -> Columns:
    means, known = rows.mean(axis=0), np.full(rows.shape[1], len(rows))
    about = rows - means
    if np.isnan(means).any():
        empty = np.isnan(rows)
        known = len(rows) - empty.sum(axis=0)
        rows = np.where(empty, 0.0, rows)
        means = rows.sum(axis=0) / np.maximum(known, 1)
        about = np.where(empty, 0.0, rows - means)
    squares = np.multiply(about, about, out=about).sum(axis=0)
    return Columns(known, means, squares, np.maximum(rows.max(axis=0), -rows.min(axis=0)))


def _joined(one: Columns, other: Columns) -> Columns:
    known, apart = one.known + other.known, other.means - one.means
    share = other.known / np.maximum(known, 1)
    return Columns(
        known,
        np.where(one.known > 0, one.means + apart * share, other.means),
        one.squares + other.squares + apart**2 * one.known * share,
        np.maximum(one.greatest, other.greatest),
    )


def to_multiples(values: FloatArray, bits: int) -> FloatArray:
    """`values` rounded to multiples of 2^-`bits`."""
    return np.asarray(np.rint(np.ldexp(values, bits)) * 2.0**-bits)


def spectral_radius(weights: FloatArray, lagged: FloatArray) -> float:
    """The spectral radius of x_t = x_t W + Σ x_{t−i} A_i + u: below 1 it is stable, from 1 on it explodes.

    W is `weights` `[d, d]`, A `lagged` `[lags, d, d]`. It is that of the companion matrix of A_i (I − W)⁻¹ (Lütkepohl
    2005, §2.1), infinite if I − W cannot be inverted, which a W without cycles always can.
    """
    lags, d, _ = lagged.shape
    try:
        reduced = lagged @ np.linalg.inv(np.eye(d) - weights)
    except np.linalg.LinAlgError:
        return float("inf")
    companion = np.eye(lags * d, k=d)
    companion[:, :d] = reduced.reshape(lags * d, d)
    return float(abs(np.linalg.eigvals(companion)).max())


FINE = 1024
"""parts of a unit in which logs are summed as whole numbers"""


@dataclass(frozen=True)
class Units:
    """Settings of the exchange: there are none."""


def build(settings: Units) -> FederatedAlgorithm[SumServer, Summand, OnceBroadcast, Summand]:
    """The one exchange; `units_of` reads the units off its last state."""
    return sum_once(
        log_sizes, lambda total, schema: no_edges(schema.variables), whole_numbers=True, needs_secure_sum=True
    )


def log_sizes(table: Table, schema: Schema) -> NDArray[np.int64]:
    """log2 of the standard deviation of each column of `table` `[n_rows, d]` in parts of 1/FINE, 0 for a constant."""
    columns = column_summaries(table)
    spread = np.sqrt(columns.variances)
    varies = spread > 1e-12 * columns.greatest
    return np.asarray(np.rint(FINE * np.log2(np.where(varies, spread, 1.0))), dtype=np.int64)


def units_of(server: SumServer) -> FloatArray:
    """The unit of each column, `[d]`: two to the mean of the silos' logs, rounded."""
    return np.asarray(np.exp2(np.rint(server.total / (FINE * len(server.schema.rows)))), dtype=np.float64)


def column_units(schema: Schema, lags: int = 0) -> FloatArray:
    """The units of the columns, `[d·(lags + 1)]`: repeated for each lag."""
    return np.tile(np.array(schema.units, np.float64), lags + 1)


def moment_units(units: FloatArray) -> FloatArray:
    """The units of `pooled_moments` of columns in `units` `[d]`: rows, sums, sums of products."""
    return np.concatenate([np.ones(1), units, product_units(units)])


def product_units(units: FloatArray) -> FloatArray:
    """The units of the upper triangle of second moments of columns in `units` `[d]`: `[d(d + 1)/2]`."""
    return triangle(np.outer(units, units))
