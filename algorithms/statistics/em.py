"""The covariance of numbers with empty cells, by EM over the silos.

EM over the silos (ours) precedes a run on numbers with empty cells. Deleting incomplete rows wastes most of the data,
and pairwise covariances need not be positive definite. If values are missing at random, maximum likelihood avoids both
problems. Exchange 1 adds up the products of pairs of observed cells, and the numbers of these pairs. Every further
exchange adds up the second moments that each silo expects under the current covariance. Only sums of D(D + 1)/2 numbers
are needed; they are masked if the run is masked. EM ends when the variance changes by at most the share `tolerance` in
every direction: with nearly collinear columns, edges depend on directions of little variance. The price of an edge
depends on the effective number of rows. It is the mean, over all pairs, of the number of rows with both cells observed.

The E-step for a Gaussian with empty cells (Dempster, Laird, Rubin 1977; Little, Rubin 2002, "Statistical Analysis with
Missing Data", §11.2): for a row x with observed columns o and their precision K = S_oo⁻¹ (zero elsewhere), the
deviations from the mean μ have expectation S K (x − μ) and covariance S − S K S. The sum over all rows is

    n S + S (Z − Σ K) S,   Z = Σ K (x − μ)(x − μ)ᵀ K,

where μ is the silo's own maximum-likelihood mean given S, the solution of (Σ K) μ = Σ K x. The mean never leaves the
silo, so a reply depends only on S and the silo's rows. Rows with the same empty cells share K and are processed
together: O(D³) for each such pattern and O(D²) for each row. In time series the rows are windows, and every series of
`MIN_CENTRED_WINDOWS` windows or more has its own mean (`lagged.py`).

If no row has cells in both of two columns, the data do not determine their covariance, and EM would not change its
initial value. This covariance is set so that the two columns are independent given all other columns, which is the
choice of maximum entropy (Dempster 1972, "Covariance selection"). Learners must not join such a pair
(`ImputationModel.apart`).

The steps use Anderson acceleration (see below).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from ..compiled import njit
from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, ImputationModel, Schema
from ..core.settings import Positive, Settings
from ..errors import BadInput
from .coding import Coding, coded_units, coding_of
from .lagged import centred_parts, window_rows, window_schema, windows
from .moments import (
    Table,
    about_means,
    centred_moments,
    chunks,
    column_summaries,
    over_parts,
    pooled_packing,
    product_units,
)
from .packing import from_triangle, triangle

# Anderson acceleration of a fixed-point iteration over covariances (Walker, Ni 2011), such as EM.
#
# The iteration F maps a point S to its image F(S). Plain EM continues from the image, and needs two to ten times as
# many steps. Here the next point is a mixture of the last images. Its weights minimise the mixture of the residuals
# F(S) − S. Residuals are measured in the units of the last image: L⁻¹ (F(S) − S) L⁻ᵀ with F(S) = L Lᵀ for the last S.
# So the scales of columns and collinearity have no influence. If the mixture is not a covariance close to the last
# image, the step is plain. Steps are also plain far from the fixed point, where mixtures are unreliable: until a step
# changes the variance in every direction by at most `RESTART_CHANGE`.


MIXTURE_SIZE = 4
"""number of points in a mixture"""
RESTART_CHANGE = 0.3
"""mixtures are used if the last step changed no variance, in any direction, by a larger share"""
FIXED_POINT_CHANGE = 1e-12
"""maximum relative change of a variance at a fixed point; without empty cells, the first step reaches it"""
MAX_MIXTURE_FACTOR = 10.0
"""maximum ratio of variances between a mixture and the last image, in any direction"""
RIDGE = 1e-10
"""ridge on the products of residuals, as a share of their trace, for residuals that are linearly dependent"""


@dataclass(frozen=True)
class Iteration:
    """The next point to evaluate `[D, D]`, the last points and their images, and the change of the last step."""

    point: FloatArray
    points: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    images: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    change: float = np.inf
    """the greatest relative change of a variance in the last step, in any direction"""


def anderson_step(iteration: Iteration, image: FloatArray) -> Iteration:
    """The iteration after a step, from the `image` `[D, D]` of its point; the image must be positive definite."""
    before = np.linalg.inv(np.linalg.cholesky(iteration.point))
    change = float(np.abs(np.linalg.eigvalsh(before @ image @ before.T) - 1).max())
    if not FIXED_POINT_CHANGE < change <= RESTART_CHANGE:
        return Iteration(image, change=change)
    points, images = (
        np.concatenate([old.reshape(-1, *image.shape), new[None]])[-MIXTURE_SIZE:]
        for old, new in ((iteration.points, iteration.point), (iteration.images, image))
    )
    return replace(iteration, point=_mixture(points, images), points=points, images=images, change=change)


def _mixture(points: FloatArray, images: FloatArray) -> FloatArray:
    """The mixture of `images` whose residuals cancel best, or the last image if the mixture is too far from it."""
    last = images[-1]
    units = np.linalg.inv(np.linalg.cholesky(last))
    residuals = (units @ (images - points) @ units.T).reshape(len(points), -1)
    gram = residuals @ residuals.T
    gram += RIDGE * max(np.trace(gram), 1e-300) * np.eye(len(gram))
    shares = np.linalg.solve(gram, np.ones(len(gram)))
    mixture = np.tensordot(shares / shares.sum(), images, axes=1)
    ratios = np.linalg.eigvalsh(units @ mixture @ units.T)
    return np.asarray(mixture if ratios[0] > 1 / MAX_MIXTURE_FACTOR and ratios[-1] < MAX_MIXTURE_FACTOR else last)


@dataclass(frozen=True)
class ExpectedMoments:
    """Expected moments of a silo's rows: their mean `[D]`, and the summed second moments about this mean `[D, D]`."""

    mean: FloatArray
    products: FloatArray


@dataclass(frozen=True)
class Patterns:
    """Coded rows `[n_rows, D]`, zero in empty cells, grouped by their patterns of empty cells."""

    rows: FloatArray
    first: NDArray[np.int64]
    """the offset of each pattern, then the number of rows, `[n_patterns + 1]`"""
    observed: NDArray[np.bool_]
    """the observed cells of each pattern, `[n_patterns, D]`"""
    order: NDArray[np.int64]
    """the number of each row in the table, `[n_rows]`"""


def patterns(coded: FloatArray) -> Patterns:
    """The rows of `coded` `[n_rows, D]`, grouped by their empty cells."""
    observed = ~np.isnan(coded)
    packed = np.packbits(observed, axis=1)
    order = np.lexsort(packed.T)
    packed = packed[order]
    begins = np.flatnonzero(np.concatenate([[True], (packed[1:] != packed[:-1]).any(axis=1)]))
    rows = np.where(observed, coded, 0.0)[order]
    return Patterns(rows, np.append(begins, len(rows)), observed[order[begins]], order)


def about_own_means(table: Table, schema: Schema) -> ExpectedMoments:
    """The means of the coded `table` `[n_rows, d]` and its second moments about these means.

    If cells are empty, they are expectations under `schema.imputation_model`, which EM has estimated.
    """
    coding = coding_of(schema)
    if schema.gaps:
        return expected_moments(table, coding, schema.imputation_model.covariance)
    return ExpectedMoments(*about_means(coding.encode(table)))


def own_moments(table: Table, schema: Schema, silo: str) -> FloatArray:
    """`centred_moments` of the coded `table` `[n_rows, d]`, or their expectation if cells are empty.

    If cells are empty, the number of rows is the silo's part of the effective number in `schema.imputation_model`.
    """
    n, coding = table.shape[0], coding_of(schema)
    lengths = schema.stretches.get(silo, (n,))
    if not schema.gaps:
        return centred_moments(coding.encode(table), lengths)
    total = expected_products(table, lengths, coding, schema.imputation_model.covariance)
    share = schema.imputation_model.rows / sum(schema.rows.values())
    rows = share * (n - len(lengths))
    return pooled_packing(coding.size).pack(rows=rows, sums=np.zeros(coding.size), products=share * total)


def expected_products(table: Table, lengths: Sequence[int], coding: Coding, S: FloatArray) -> FloatArray:
    """The summed expected second moments of `table` `[n_rows, d]`, about the means of each part with these `lengths`.

    A table that is read in passes is one part.
    """
    return sum(
        (expected_moments(part, coding, S).products for part in parts_of(table, lengths)),
        start=np.zeros((coding.size, coding.size)),
    )


def centred_windows_with_gaps(table: FloatArray, schema: Schema, silo: str, lags: int) -> tuple[FloatArray, FloatArray]:
    """The windows of the series `table` `[n_rows, d]` in the order of time, and their summed second moments `[m, m]`.

    Empty cells are NaN. Both results are about means of the same parts as in `centred_windows`. Here the means are
    expectations under the imputation model of `schema`.
    """
    public, rows = window_schema(schema, lags), windows(table, schema.stretches[silo], lags)
    total = np.zeros((rows.shape[1],) * 2)
    for part in centred_parts(schema.stretches[silo], lags):
        own = about_own_means(rows[part], public)
        rows[part] -= own.mean
        total += own.products
    return rows, total


def parts_of(table: Table, lengths: Sequence[int]) -> Sequence[Table]:
    """The parts of `table` `[n_rows, d]` that have these `lengths`; a table that is read in passes is one part."""
    return np.split(table, np.cumsum(lengths)[:-1]) if isinstance(table, np.ndarray) else (table,)


def expected_moments(table: Table, coding: Coding, S: FloatArray) -> ExpectedMoments:
    """The expected moments of the rows of `table` `[n_rows, d]` with covariance `S` `[D, D]`.

    Raises `ValueError` if S is not known yet (a programming error), and `BadInput` if S has another shape. Without this
    check, a coordinator could make compiled code read out of bounds.
    """
    D = coding.size
    if not len(S):
        raise ValueError("rows with empty cells have no moments before EM has estimated their covariance")
    if S.shape != (D, D):
        raise BadInput(f"the covariance of {D} columns has not {D} rows and columns")
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    precision, weighted, n = _sums(over_parts(table, lambda part: _precision(part, coding, scale, R)))
    mean = np.linalg.lstsq(precision, weighted)[0]
    (excess,) = _sums(over_parts(table, lambda part: _excess(part, coding, scale, R, mean)))
    return ExpectedMoments(np.asarray(mean * scale, np.float64), (n * R + R @ excess @ R) * np.outer(scale, scale))


def _precision(table: Table, coding: Coding, scale: FloatArray, R: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """The summed precisions `[D, D]` of the observed cells, their weighted sums `[D]`, and the number of rows."""
    precision, weighted, n = np.zeros((coding.size, coding.size)), np.zeros(coding.size), 0
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _add_precision(part.rows, part.first, part.observed, R, precision, weighted)
        n += len(rows)
    return precision, weighted, n


def _excess(table: Table, coding: Coding, scale: FloatArray, R: FloatArray, mean: FloatArray) -> tuple[FloatArray]:
    """The matrix Z − Σ K `[D, D]` of the module's formula, for correlations `R`."""
    excess = np.zeros((coding.size, coding.size))
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _add_excess(part.rows, part.first, part.observed, R, mean, excess)
    return (excess,)


def _sums(parts: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The sum of each component of the `parts`."""
    return reduce(lambda one, other: tuple(a + b for a, b in zip(one, other, strict=True)), parts)


@njit(cache=True)
def inverse_of_observed(R, observed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The inverse of the submatrix of R with the rows and columns `observed`."""
    k = len(observed)
    own = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            own[a, b] = R[observed[a], observed[b]]
    return np.linalg.inv(own)


@njit(cache=True)
def _add_precision(rows, first, patterns, R, precision, weighted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Σ K to `precision` and Σ K x to `weighted`."""
    for p in range(len(patterns)):
        observed = np.flatnonzero(patterns[p])
        if len(observed) == 0:
            continue
        n = first[p + 1] - first[p]
        K = inverse_of_observed(R, observed)
        for a in range(len(observed)):
            total = 0.0
            for r in range(first[p], first[p + 1]):
                total += rows[r, observed[a]]
            for b in range(len(observed)):
                precision[observed[b], observed[a]] += n * K[b, a]
                weighted[observed[b]] += K[b, a] * total


@njit(cache=True)
def _add_excess(rows, first, patterns, R, mean, excess):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Z − Σ K to `excess`."""
    for p in range(len(patterns)):
        observed = np.flatnonzero(patterns[p])
        k = len(observed)
        if k == 0:
            continue
        K, T, y = inverse_of_observed(R, observed), np.zeros((k, k)), np.empty(k)
        for r in range(first[p], first[p + 1]):
            for a in range(k):
                y[a] = rows[r, observed[a]] - mean[observed[a]]
            for a in range(k):
                for b in range(a + 1):
                    T[a, b] += y[a] * y[b]
        for a in range(k):
            for b in range(a):
                T[b, a] = T[a, b]
        n = first[p + 1] - first[p]
        contribution = K @ T @ K - n * K
        for a in range(k):
            for b in range(k):
                excess[observed[a], observed[b]] += contribution[a, b]


MIN_EIGENVALUE = 1e-3
"""minimum eigenvalue of EM's initial correlations, because pairwise correlations need not be positive definite"""
SHRINKAGE = 0.1
"""shrinkage of EM's initial correlations, because EM converges faster from values that are too small"""
FLOOR = 1e-6
"""share of the diagonal that is added to it, because a column may be a sum of other columns"""

LEAST_ROWS = 0.5
"""lower bound on the number of rows of a level, for the variance of its indicator"""
MIN_PAIRS = 0.5
"""minimum number of rows of a pair of columns that is observed together; it allows for rounding in masked sums"""
MAX_SWEEPS = 50
"""maximum number of passes over the pairs of columns that are never observed together"""
SWEEP_TOLERANCE = 1e-6
"""maximum change of a correlation in the last of these passes"""


@dataclass(frozen=True)
class ExpectationMaximisation(Settings):
    """Settings of the exchanges."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    tolerance: Positive = 0.01
    """maximum relative change of the variance in any direction at convergence"""
    rounds: Annotated[int, Ge(2)] = 50
    """maximum number of exchanges"""
    lags: int = 0
    """for time series, the number of earlier rows in a window; the rows are then windows"""


@dataclass(frozen=True, eq=False)
class Silo:
    """A silo's rows `[n_rows, d]`, their coding, the number of rows of all silos, and the lengths of centred parts."""

    table: Table
    coding: Coding
    all_rows: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    """The current covariance `[D, D]`; empty in the first exchange."""

    S: FloatArray


@dataclass(frozen=True)
class Server:
    """The current covariance and its effective number of rows, 0 before the first sum."""

    schema: Schema
    iteration: Iteration
    rows: int
    tolerance: float
    observed: FloatArray
    """the number of observed cells of each coded column, `[D]`; empty before the first sum"""
    apart: NDArray[np.bool_]
    """whether no row has cells of both coded columns, `[D, D]`; empty before the first sum"""
    present: int = 0
    """for time series, the number of variables, which are the first columns of the windows; otherwise 0"""

    @property
    def covariance(self) -> FloatArray:
        """The current covariance, `[D, D]`."""
        return self.iteration.point

    @property
    def imputation_model(self) -> ImputationModel:
        """The imputation model that every silo receives."""
        first = [block[0] for block in coding_of(self.schema).blocks]
        first = first[: self.present] if self.present else first
        apart = self.apart[np.ix_(first, first)]
        windows = sum(self.schema.rows.values()) if self.present else 0
        apart = apart if apart.any() else np.empty((0, 0), bool)
        return ImputationModel(self.covariance, rows=self.rows, windows=windows, apart=apart)


def build(settings: ExpectationMaximisation) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchanges of EM."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: _open_silo(table, schema, silo, settings.lags),
        open_server=lambda schema: _start(schema, settings),
        broadcast=lambda server: Broadcast(server.covariance),
        part=own_sums,
        aggregate=aggregate,
        converged=lambda server: server.iteration.change <= server.tolerance,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=settings.rounds,
        entry_units=lambda schema, request: _units(_rows_schema(schema, settings.lags), request),
        needs_secure_sum=settings.masked,
        measures=lambda server: {"change": server.iteration.change},
    )


def _rows_schema(schema: Schema, lags: int) -> Schema:
    """The public schema of the rows, which are windows for time series."""
    return window_schema(schema, lags) if lags else schema


def _start(schema: Schema, settings: ExpectationMaximisation) -> Server:
    public, present = _rows_schema(schema.in_order(), settings.lags), len(schema.variables) if settings.lags else 0
    nothing = np.empty((0, 0))
    return Server(public, Iteration(nothing), 0, settings.tolerance, np.empty(0), nothing.astype(np.bool_), present)


def _open_silo(table: Table, schema: Schema, silo: str, lags: int) -> Silo:
    """The silo with its rows or, with `lags`, the windows of its series, ordered by the parts with common means."""
    public = _rows_schema(schema, lags)
    coding, all_rows = coding_of(public), sum(public.rows.values())
    if not lags:
        return Silo(table, coding, all_rows, (table.shape[0],))
    assert isinstance(table, np.ndarray)
    return Silo(window_rows(table, schema.stretches[silo], lags), coding, all_rows, public.stretches[silo])


def own_sums(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the numbers of pairs and their products, or of the expected second moments."""
    if len(request.S):
        return triangle(expected_products(silo.table, silo.lengths, silo.coding, request.S)) / silo.all_rows
    each = [pairwise_complete(part, silo.coding) for part in parts_of(silo.table, silo.lengths)]
    products, pairs = (np.sum(one, axis=0) for one in zip(*each, strict=True))
    return np.concatenate([triangle(pairs), triangle(products)]) / silo.all_rows


def pairwise_complete(table: Table, coding: Coding) -> tuple[FloatArray, FloatArray]:
    """By pair of columns, the sum of products and the number of rows with both cells observed, `[D, D]` each.

    Products are about the means of the observed cells.
    """
    means = column_summaries(coding.encode(table)).means
    products, pairs = _sums(over_parts(table, lambda part: _complete_pairs(part, coding, means)))
    return products, pairs


def _complete_pairs(table: Table, coding: Coding, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    products, pairs = np.zeros((coding.size, coding.size)), np.zeros((coding.size, coding.size))
    for rows in chunks(table):
        coded = coding.rows(rows)
        observed = ~np.isnan(coded)
        deviations = np.where(observed, coded - means, 0.0)
        products += deviations.T @ deviations
        pairs += observed.T.astype(np.float64) @ observed
    return products, pairs


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the covariance from the sum. Raises `BadInput` for a column without variance."""
    rows, all_rows = sum(server.schema.rows[silo] for silo in replies.silos), sum(server.schema.rows.values())
    total = replies.total * all_rows
    if len(server.covariance):
        means = sum(len(server.schema.stretches[silo]) if server.present else 1 for silo in replies.silos)
        S = _with_floor(from_triangle(total) / max(rows - means, 1), coding_of(server.schema), rows)
        S = of_maximum_entropy(S, server.apart)
        return replace(server, iteration=anderson_step(server.iteration, S))
    pairs, products = (from_triangle(part) for part in np.split(total, 2))
    S = np.divide(products, pairs, out=np.zeros_like(products), where=pairs > 0.5)
    coding = coding_of(server.schema)
    for name, block in zip(server.schema.variables, coding.blocks, strict=True):
        if (np.diag(S)[block] <= 0).all():
            raise BadInput(f"column '{name}' has no variance within any silo, so it must be excluded")
    # For a lost silo, the share of empty cells of the others is assumed, because learners rescale by all rows.
    pairs *= all_rows / rows
    return replace(
        server,
        iteration=Iteration(_positive(_with_least_variances(S, coding, rows))),
        rows=_mean_of_pairs(pairs, coding),
        observed=np.diag(pairs).copy(),
        apart=pairs < MIN_PAIRS,
    )


def of_maximum_entropy(S: FloatArray, apart: NDArray[np.bool_]) -> FloatArray:
    """The covariance `S` `[D, D]`, changed so that each pair of columns in `apart` is independent given all others.

    The covariances of these pairs are updated in turn: the conditional covariance of a pair given the other columns is
    subtracted from the covariance of the pair.
    """
    pairs = np.argwhere(np.triu(apart, 1))
    if not len(pairs):
        return S
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    for _ in range(MAX_SWEEPS):
        largest = 0.0
        for i, j in pairs:
            K = np.linalg.solve(R, np.eye(len(R))[:, [i, j]])[[i, j]]
            given = np.linalg.inv(K)[0, 1]
            R[i, j] -= given
            R[j, i] -= given
            largest = max(largest, abs(given))
        if largest < SWEEP_TOLERANCE:
            break
    return np.asarray(R * np.outer(scale, scale))


def _positive(S: FloatArray) -> FloatArray:
    """A positive definite covariance with the variances of `S` and slightly shrunk correlations."""
    scale = np.sqrt(np.diag(S))
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    R = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    return np.asarray(((1 - SHRINKAGE) * R + SHRINKAGE * np.eye(len(R))) * np.outer(scale, scale))


def _with_floor(S: FloatArray, coding: Coding, rows: int) -> FloatArray:
    S = _with_least_variances(S, coding, rows)
    return S + FLOOR * np.diag(np.diag(S))


def _with_least_variances(S: FloatArray, coding: Coding, rows: int) -> FloatArray:
    """`S` `[D, D]` with at least the variance of half a row for each indicator.

    Without it, S would be singular if a level has no rows. Such levels occur if they are declared for future rows, or
    after recoding. They count as rare and are merged (`coding.py`).
    """
    indicators = np.array(coding.discrete, bool)[coding.owners]
    least = np.where(indicators, LEAST_ROWS / rows, 0.0)
    return S + np.diag(np.maximum(least - np.diag(S), 0.0))


def _mean_of_pairs(pairs: FloatArray, coding: Coding) -> int:
    """The mean number of rows with both cells over the pairs of variables; if there is one variable, its cells."""
    first = np.array([block[0] for block in coding.blocks])
    variable_pairs = pairs[np.ix_(first, first)]
    between = variable_pairs[np.triu_indices(len(first), 1)]
    return round(float(between.mean() if len(between) else variable_pairs[0, 0]))


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    products = product_units(coded_units(schema))
    return products if len(request.S) else np.concatenate([np.ones(len(products)), products])
