"""Moments of columns, which are sufficient for linear and Gaussian models, and the units of moments in masked sums.

- `Chunked`, `chunks`: tables that are read in passes, because a silo's rows may exceed its memory.
- `Divided`, `over_parts`: tables whose parts several processes read, with the same results for any number of them.
- `products`, `pooled_moments`, `covariance`, `correlation`: sums of products and covariances.
- `column_summaries`: a summary of each column.
- `to_multiples`: multiples of a power of two, whose sums are exact in any order, plain or masked.
- `top_down_order`: the order of variables by least variance given all earlier ones, Algorithm 1 of Chen, Drton & Wang
  2019.
- `spectral_radius`: the stability of linear models of time series.
- `Units`, `build`: the exchange before masked runs that finds the units of the columns (our own method). Masked
  numbers have 32 bits before and after the binary point, so columns of very different magnitudes need different units.
  Each silo adds log2 of the standard deviation of each of its columns to a masked sum; the rounded mean is the exponent
  of the column's unit. Units are powers of two, so dividing by them and multiplying again is exact.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Summand, SumServer, sum_once
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..errors import BadInput
from .declared_sums import require_second_moments
from .packing import Block, Packing, triangle


@runtime_checkable
class Chunked(Protocol):
    """Rows in chunks, arrays `[n, n_variables]`, which every iteration reads again."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Read the rows again, in the same order and the same chunks."""
        ...


Found = TypeVar("Found")
"""the type of a statistic of a part of a table"""


@runtime_checkable
class Divided(Chunked, Protocol):
    """Rows in parts, whose boundaries depend only on the rows; several processes can read the parts in parallel."""

    def map_parts(self, work: Callable[[Chunked], Found]) -> Iterator[Found]:
        """Yield `work` of each part, in the order of the parts. It may run in another process."""
        ...


Table = NDArray[Any] | Chunked
"""a silo's rows `[n_rows, n_variables]`, in memory or read in passes"""


def chunks(table: Table) -> Iterator[NDArray[Any]]:
    """Yield the rows of `table` in chunks; a table in memory is one chunk."""
    if isinstance(table, np.ndarray):
        yield table
    else:
        yield from table


def over_parts(table: Table, work: Callable[[Any], Found]) -> Iterator[Found]:
    """Yield `work` of each part of `table`, in the order of the parts; a table that is not divided is one part.

    Results that are merged in this order have the same bits for any number of processes.
    """
    if isinstance(table, Divided):
        yield from table.map_parts(work)
    else:
        yield work(table)


@dataclass(frozen=True)
class MappedPasses:
    """A table that is read in passes, with the rows `[n_rows, columns]` that `change` makes of each chunk."""

    table: Chunked
    change: Callable[[NDArray[Any]], NDArray[Any]]
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.table.shape[0], self.columns

    def map_parts(self, work: Callable[[Chunked], Found]) -> Iterator[Found]:
        """The results of `work` on each part of the table, in order."""
        return over_parts(self.table, lambda part: work(replace(self, table=part)))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return map(self.change, self.table)


def sum_over_chunks(table: Table, statistic: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """The sum of `statistic` over the chunks of `table`: first the sum of each part, then the sum over all parts."""
    sums = over_parts(table, lambda part: _sum(map(statistic, chunks(part))))
    total = _sum(one for one in sums if one is not None)
    if total is None:
        raise ValueError("a table without rows has no sums")
    return total


def _sum(summands: Iterator[NDArray[Any]]) -> NDArray[Any] | None:
    """The sum of all `summands`; None if there are none, as in a part without a complete row."""
    first = next(summands, None)
    return None if first is None else reduce(add, summands, first)


def thin_rows(table: Table, max_rows: int) -> NDArray[Any]:
    """Rows `[n, n_variables]` for statistics that are not sums, such as medians.

    For a table in memory, these are all rows. For a table that is read in passes, they are every k-th row of each part,
    with k = ⌈rows / `max_rows`⌉. These are at most `max_rows` rows, or a few more if the table has several parts.
    """
    if isinstance(table, np.ndarray):
        return table
    step = -(-table.shape[0] // max_rows)

    def thinned(part: Chunked) -> list[NDArray[Any]]:
        begin, selected = 0, []
        for rows in part:
            selected.append(rows[-begin % step :: step].copy())
            begin += len(rows)
        return selected

    return np.concatenate([rows for selected in over_parts(table, thinned) for rows in selected])


def conditions_of(table: Table, sizes: Sequence[int], silo: str) -> list[Table]:
    """The rows of `table` by condition; `sizes` has the number of rows of each condition.

    Raises `BadInput` for several conditions in a table that is read in passes.
    """
    if isinstance(table, np.ndarray):
        return list(np.split(table, np.cumsum(sizes)[:-1]))
    if len(sizes) > 1:
        raise BadInput(
            f"silo {silo}: its rows exceed its memory limit, but a silo with conditions needs all rows in memory"
        )
    return [table]


MAX_UNJOINED_CORRELATION = 0.1
"""a residual is tested against the square of a nonadjacent variable only if their correlation is below this"""
ROUNDING = 1e-12
"""a variance of at most this share of the column's mean square is zero up to rounding"""


@dataclass(frozen=True, eq=False)
class SummedMomentsWithin:
    """The moments of the coded columns over all silos, in the form in which an exchange has summed them.

    Further exchanges about the same rows need not request them again.
    """

    rows: int
    means: FloatArray
    """`[d]`"""
    within: FloatArray
    """second moments about the silos' own means, per row, `[d, d]`"""


@dataclass(frozen=True)
class SecondMoments:
    """Second moments S `[d, d]` and their number of rows."""

    S: FloatArray
    rows: int


def products(table: Table, *, center: bool = False) -> FloatArray:
    """XᵀX of the rows in `table` `[n_rows, d]`, about the columns' own means if `center` is set: `[d, d]`."""
    return about_means(table)[1] if center else sum_over_chunks(table, lambda X: np.asarray(X.T @ X))


def about_means(table: Table) -> tuple[FloatArray, FloatArray]:
    """The columns' means `[d]`, and the sums of products about these means `[d, d]`, of `table` `[n_rows, d]`.

    One pass: the products of each chunk are about its own means, and chunks are merged by Chan, Golub, LeVeque 1983
    ("Algorithms for computing the sample variance", Eq. 2.1). Means are subtracted before squaring, so there is no
    cancellation for any offsets of the columns and any order of the rows.
    """
    d = table.shape[1]
    merged = CentredMoments.of_nothing(d)
    for part in over_parts(table, _centred):
        merged = merged.with_rows(part)
    return merged.means, merged.total


@dataclass
class CentredMoments:
    """The number of rows, their means `[d]`, and the sums of products about these means `[d, d]`."""

    rows: int
    means: FloatArray
    total: FloatArray

    @classmethod
    def of_nothing(cls, d: int) -> "CentredMoments":
        """The moments of no rows with `d` columns."""
        return cls(0, np.zeros(d), np.zeros((d, d)))

    @classmethod
    def of(cls, rows: FloatArray) -> "CentredMoments":
        """The moments of `rows` `[n, d]`."""
        means = rows.mean(axis=0)
        X = rows - means
        return cls(len(rows), means, np.asarray(X.T @ X))

    def with_rows(self, other: "CentredMoments") -> "CentredMoments":
        """These moments combined with the moments of further rows; `total` is changed in place."""
        if not self.rows:
            return other
        if not other.rows:
            return self
        difference, all_rows = other.means - self.means, self.rows + other.rows
        self.total += other.total
        self.total += (self.rows * other.rows / all_rows) * np.outer(difference, difference)
        return CentredMoments(all_rows, self.means + difference * (other.rows / all_rows), self.total)


def _centred(table: Table) -> CentredMoments:
    merged = CentredMoments.of_nothing(table.shape[1])
    for rows in chunks(table):
        merged = merged.with_rows(CentredMoments.of(rows))
    return merged


def pooled_packing(d: int) -> Packing:
    """The packing of the moments of `d` columns: the number of rows, the sums and the sums of products."""
    return Packing((Block("rows", ()), Block("sums", (d,)), Block("products", (d, d), symmetric=True)))


def pooled_moments(table: Table) -> FloatArray:
    """The number of rows, sums, and sums of products of `table` `[n_rows, d]`: a vector `[1 + d + d(d + 1)/2]`."""
    n, d = table.shape
    sums = sum_over_chunks(table, lambda rows: rows.sum(axis=0))
    return pooled_packing(d).pack(rows=float(n), sums=sums, products=products(table))


def centred_moments(table: Table, lengths: tuple[int, ...]) -> FloatArray:
    """The pooled moments of `table` `[n_rows, d]`, with products about the means of each stretch of consecutive rows.

    `lengths` has the number of rows of each stretch. A table that is read in passes has only one mean for all its
    stretches. Offsets of silos carry no information about structure, and no mean leaves the silo: the sums are zero.
    The means cost one degree of freedom per stretch, so the number of rows is n_rows − stretches. Means are subtracted
    before squaring. A column whose sum of squares is then at most `ROUNDING`² of the original sum is constant up to
    rounding, so its products are set to 0.
    """
    n, d = table.shape
    total = np.zeros((d, d))
    for part in np.split(table, np.cumsum(lengths)[:-1]) if isinstance(table, np.ndarray) else (table,):
        means, within = about_means(part)
        constant = np.diag(within) <= ROUNDING**2 * (np.diag(within) + part.shape[0] * means**2)
        total += np.where(constant | constant[:, None], 0.0, within)
    return pooled_packing(d).pack(rows=float(n - len(lengths)), sums=np.zeros(d), products=total)


def per_row(moments: FloatArray, all_rows: int) -> FloatArray:
    """Pooled moments in which all entries except the number of rows are divided by `all_rows`.

    The entries then do not grow with the number of rows and fit the fixed-point numbers of a secure sum.
    """
    return np.concatenate([moments[:1], moments[1:] / all_rows])


def undo_per_row(sums: FloatArray, all_rows: int) -> FloatArray:
    """The pooled moments from a sum of `per_row` moments: the inverse of `per_row`."""
    return np.concatenate([sums[:1], sums[1:] * all_rows])


def covariance(moments: FloatArray, d: int) -> tuple[int, FloatArray]:
    """The number of rows and the covariance about the mean `[d, d]` from (summed) pooled moments."""
    one = pooled_packing(d).unpack(moments)
    n = one["rows"]
    return int(n), one["products"] / n - np.outer(one["sums"], one["sums"]) / n**2


def correlation(moments: FloatArray, d: int) -> tuple[int, FloatArray]:
    """The number of rows and the correlations `[d, d]` from (summed) pooled moments.

    A column without variance has correlation 0 with all other columns.
    """
    one = pooled_packing(d).unpack(moments)
    centred = one["products"] - np.outer(one["sums"], one["sums"]) / one["rows"]
    variances = np.diag(centred)
    scale = np.sqrt(np.where(variances > ROUNDING * np.diag(one["products"]), variances, 0))
    both = np.outer(scale, scale)
    correlations: NDArray[np.float64] = np.divide(centred, both, out=np.eye(d), where=both > 0)
    np.fill_diagonal(correlations, 1.0)
    return int(one["rows"]), correlations


def unit_diagonal(S: FloatArray) -> FloatArray:
    """Second moments `S` `[d, d]` scaled to a diagonal of ones, in units of the root mean squares."""
    scale = np.sqrt(np.diag(S))
    return np.asarray(S / np.outer(scale, scale))


FLOOR = 1e-9
"""share of the diagonal that is added to singular second moments, for example if there are fewer rows than variables"""
SINGULAR = 1e-7
"""correlations with a smaller eigenvalue count as singular; the rounding of encoded summands is smaller than this"""


def is_positive_definite(R: FloatArray) -> bool:
    """Whether correlations `R` `[d, d]` have no eigenvalue below `SINGULAR`."""
    try:
        np.linalg.cholesky(R - SINGULAR * np.eye(len(R)))
    except np.linalg.LinAlgError:
        return False
    return True


def require_variance(S: FloatArray, columns: Sequence[str]) -> None:
    """Raise `BadInput` for the first of the `columns` without variance in second moments `S` `[d, d]`."""
    for v in np.flatnonzero(np.diag(S) <= 0)[:1]:
        raise BadInput(f"column '{columns[v]}' has no variance within any silo, so it must be excluded")


def require_positive_definite(S: FloatArray, schema: Schema) -> FloatArray:
    """`S` `[d, d]`, made positive definite if it is singular.

    Raises `BadInput` for a column without variance, and if S has an eigenvalue that no second moments have.
    """
    require_variance(S, schema.variables)
    if is_positive_definite(unit_diagonal(S)):
        return S
    require_second_moments(S)
    return S + FLOOR * np.diag(np.diag(S))


def regression_weights(S: FloatArray, adjacency: NDArray[np.bool_]) -> FloatArray:
    """The least-squares weights of every variable on its parents, from second moments `S` `[m, m]`.

    `adjacency` is `[m, m]`, or `[m, d]` for the first d variables; the weights have the same shape.
    """
    weights = np.zeros(adjacency.shape)
    for j in range(adjacency.shape[1]):
        parents = np.flatnonzero(adjacency[:, j])
        if len(parents):
            weights[parents, j] = np.linalg.lstsq(S[np.ix_(parents, parents)], S[parents, j])[0]
    return weights


def residual_variances(S: FloatArray, weights: FloatArray) -> FloatArray:
    """Each variable's mean squared residual under `weights`, `[d]`, from `S`; at least 1e-6 of its mean square.

    `weights` are `[m, d]` and `S` is `[m, m]`: d rows for the variables, then the rows for lagged variables.
    """
    d = weights.shape[1]
    residual_map = np.eye(len(S), d) - weights
    floor = 1e-6 * np.diag(S)[:d]
    return np.asarray(np.maximum(np.einsum("ij,ik,kj->j", residual_map, S, residual_map, optimize=True), floor))


@dataclass(frozen=True)
class Columns:
    """Summaries of the columns of a table without their empty cells (NaN), `[n_variables]` each."""

    cells: NDArray[np.int64]
    """number of cells that are not empty"""
    means: FloatArray
    squares: FloatArray
    """sums of the squared deviations from the means"""
    greatest: FloatArray
    """the greatest absolute value of each column"""

    @property
    def variances(self) -> FloatArray:
        """The mean squared deviation of each column; 0 for an empty column."""
        return np.asarray(self.squares / np.maximum(self.cells, 1))


def column_summaries(table: Table) -> Columns:
    """The summary of each column of `table` `[n_rows, n_variables]`.

    One pass; chunks are merged as in Chan, Golub, LeVeque 1983 ("Algorithms for computing the sample variance").
    """
    parts = [part for part in over_parts(table, _summary_of_chunks) if part is not None]
    if not parts:
        raise ValueError("a table without rows has no column summaries")
    return reduce(_merge, parts)


def _summary_of_chunks(table: Table) -> Columns | None:
    summaries: Columns | None = None
    for rows in chunks(table):
        part = _summarise(rows)
        summaries = part if summaries is None else _merge(summaries, part)
    return summaries


def _summarise(rows: FloatArray) -> Columns:
    means, cells = rows.mean(axis=0), np.full(rows.shape[1], len(rows))
    deviations = rows - means
    if np.isnan(means).any():
        empty = np.isnan(rows)
        cells = len(rows) - empty.sum(axis=0)
        rows = np.where(empty, 0.0, rows)
        means = rows.sum(axis=0) / np.maximum(cells, 1)
        deviations = np.where(empty, 0.0, rows - means)
    squares = np.multiply(deviations, deviations, out=deviations).sum(axis=0)
    return Columns(cells, means, squares, np.maximum(rows.max(axis=0), -rows.min(axis=0)))


def _merge(one: Columns, other: Columns) -> Columns:
    cells, difference = one.cells + other.cells, other.means - one.means
    share = other.cells / np.maximum(cells, 1)
    return Columns(
        cells,
        np.where(one.cells > 0, one.means + difference * share, other.means),
        one.squares + other.squares + difference**2 * one.cells * share,
        np.maximum(one.greatest, other.greatest),
    )


def to_multiples(values: FloatArray, bits: int) -> FloatArray:
    """`values` rounded to multiples of 2^-`bits`."""
    return np.asarray(np.rint(np.ldexp(values, bits)) * 2.0**-bits)


def spectral_radius(weights: FloatArray, lagged: FloatArray) -> float:
    """The spectral radius of x_t = x_t W + Σ x_{t−i} A_i + u: stable below 1, a unit root at 1, explosive above 1.

    W is `weights` `[d, d]`, and A is `lagged` `[lags, d, d]`. The result is the spectral radius of the companion matrix
    of A_i (I − W)⁻¹ (Lütkepohl 2005, §2.1). It is infinite if I − W is singular; for an acyclic W, I − W is regular.
    """
    lags, d, _ = lagged.shape
    try:
        reduced = lagged @ np.linalg.inv(np.eye(d) - weights)
    except np.linalg.LinAlgError:
        return float("inf")
    companion = np.eye(lags * d, k=d)
    companion[:, :d] = reduced.reshape(lags * d, d)
    return float(abs(np.linalg.eigvals(companion)).max())


LOG2_PARTS = 1024
"""a silo sends each log2 as a whole number of steps of 1/LOG2_PARTS"""


@dataclass(frozen=True)
class Units(Settings):
    """Settings of the exchange for the units of the columns: there are none."""


def build(settings: Units) -> FederatedAlgorithm[SumServer, NDArray[Any], OnceBroadcast, Summand]:
    """The algorithm of one masked sum; `units_of` computes the units from the server's last state."""
    return sum_once(log_sizes, whole_numbers=True, needs_secure_sum=True)


def log_sizes(table: Table, schema: Schema) -> NDArray[np.int64]:
    """LOG2_PARTS · log2 of the standard deviation of each column of `table` `[n_rows, d]`; 0 for a constant column."""
    columns = column_summaries(table)
    spread = np.sqrt(columns.variances)
    varies = spread > 1e-12 * columns.greatest
    return np.asarray(np.rint(LOG2_PARTS * np.log2(np.where(varies, spread, 1.0))), dtype=np.int64)


def units_of(server: SumServer) -> FloatArray:
    """The unit of each column, `[d]`: two to the power of the rounded mean of the silos' log2."""
    return np.asarray(np.exp2(np.rint(server.total / (LOG2_PARTS * len(server.schema.rows)))), dtype=np.float64)


def column_units(schema: Schema, lags: int = 0) -> FloatArray:
    """The units of the columns, `[d·(lags + 1)]`: repeated for each lag."""
    return np.tile(np.array(schema.units, np.float64), lags + 1)


def moment_units(units: FloatArray) -> FloatArray:
    """The units of `pooled_moments` of columns in `units` `[d]`: rows, sums, sums of products."""
    return np.concatenate([np.ones(1), units, product_units(units)])


def product_units(units: FloatArray) -> FloatArray:
    """The units of the upper triangle of second moments of columns in `units` `[d]`: `[d(d + 1)/2]`."""
    return triangle(np.outer(units, units))


PANEL = 64
"""number of variables that are ordered before one matrix product updates the remaining variables"""


def top_down_order(
    covariance: FloatArray, precedes: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], FloatArray]:
    """Each variable's position, `[d]`, and its variance given all earlier variables, `[d]`; least variance first.

    The order respects `precedes` `[d, d]`. The variances are Schur complements. One Cholesky factorisation, which
    pivots on the least variance, updates them in panels as in LAPACK's `pstrf`: O(d³/3).
    """
    d = len(covariance)
    predecessors = np.zeros((d, d), bool) if precedes is None else precedes
    position, variances, waits = np.empty(d, np.int64), np.empty(d), predecessors.sum(axis=0)
    remaining, residual = np.arange(d), covariance
    for begin in range(0, d, PANEL):
        width, diagonal, left = min(PANEL, d - begin), np.diag(residual).copy(), np.ones(len(remaining), np.bool_)
        rows, scaled = np.empty((2, width, len(remaining)))
        for k in range(width):
            candidates = np.where(left & (waits[remaining] == 0), diagonal, np.inf)
            at = int(np.argmin(candidates))
            variable = remaining[at]
            position[variable], variances[variable] = begin + k, candidates[at]
            rows[k] = residual[at] - scaled[:k, at] @ rows[:k]
            scaled[k] = rows[k] / candidates[at]
            diagonal -= rows[k] * scaled[k]
            left[at] = False
            waits -= predecessors[variable]
        remaining, residual = remaining[left], residual[np.ix_(left, left)] - rows[:, left].T @ scaled[:, left]
    return position, variances
