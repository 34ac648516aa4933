"""The E-step of EM for a Gaussian with empty cells: the expected moments of a silo's rows under a covariance.

Sources: Dempster, Laird, Rubin 1977; Little, Rubin 2002, "Statistical Analysis with Missing Data", §11.2. For a row x
with observed columns o and their precision K = S_oo⁻¹ (zero elsewhere), the deviations from the mean μ have expectation
S K (x − μ) and covariance S − S K S. The sum over all rows is

    n S + S (Z − Σ K) S,   Z = Σ K (x − μ)(x − μ)ᵀ K,

where μ is the silo's own maximum-likelihood mean given S, the solution of (Σ K) μ = Σ K x. The mean never leaves the
silo, so a reply depends only on S and the silo's rows. Rows with the same empty cells share K and are processed
together: O(D²) for each row, and for each such pattern O(D²·m) with m empty cells, as K = P − P_·m P_mm⁻¹ P_m· with the
precision P = S⁻¹ of all columns. If many cells are empty, or P is imprecise, S_oo is inverted instead, O(D³). In time
series the rows are windows, and every series of `MIN_CENTRED_WINDOWS` windows or more has its own mean (`lagged.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from .coding import Coding, coding_of
from .lagged import centred_parts, window_schema, windows
from .moments import Table, about_means, centred_moments, chunks, over_parts, pooled_packing


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

    If cells are empty or rows depend on each other, the number of rows is the silo's part of the effective number.
    """
    n, coding, share = table.shape[0], coding_of(schema), schema.effective_share
    lengths = schema.stretches.get(silo, (n,))
    if not schema.gaps:
        return share * centred_moments(coding.encode(table), lengths)
    total = expected_products(table, lengths, coding, schema.imputation_model.covariance)
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
    P = inverse_of_all(R)
    precision, weighted, n = sum_parts(over_parts(table, lambda part: _precision(part, coding, scale, R, P)))
    mean = np.linalg.lstsq(precision, weighted)[0]
    (excess,) = sum_parts(over_parts(table, lambda part: _excess(part, coding, scale, R, P, mean)))
    return ExpectedMoments(np.asarray(mean * scale, np.float64), (n * R + R @ excess @ R) * np.outer(scale, scale))


MAX_PRECISION = 1e6
"""greatest entry of a precision matrix of correlations from which the precisions of fewer columns are computed"""


def inverse_of_all(R: FloatArray) -> FloatArray:
    """The inverse of the correlations `R`; empty if it is imprecise."""
    try:
        P = np.linalg.inv(R)
    except np.linalg.LinAlgError:
        return np.empty((0, 0))
    return np.asarray(P if np.abs(P).max(initial=0.0) <= MAX_PRECISION else np.empty((0, 0)))


def _precision(
    table: Table, coding: Coding, scale: FloatArray, R: FloatArray, P: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """The summed precisions `[D, D]` of the observed cells, their weighted sums `[D]`, and the number of rows."""
    precision, weighted, n = np.zeros((coding.size, coding.size)), np.zeros(coding.size), 0
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _add_precision(part.rows, part.first, part.observed, R, P, precision, weighted)
        n += len(rows)
    return precision, weighted, n


def _excess(
    table: Table, coding: Coding, scale: FloatArray, R: FloatArray, P: FloatArray, mean: FloatArray
) -> tuple[FloatArray]:
    """The matrix Z − Σ K `[D, D]` of the module's formula, for correlations `R`."""
    excess = np.zeros((coding.size, coding.size))
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _add_excess(part.rows, part.first, part.observed, R, P, mean, excess)
    return (excess,)


def sum_parts(parts: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
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
def observed_precision(R, P, is_observed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The precision K `[D, D]` of the observed columns, zero elsewhere."""
    observed, missing = np.flatnonzero(is_observed), np.flatnonzero(~is_observed)
    D, m = len(R), len(missing)
    if len(P) == 0 or 3 * m > D:
        K, own = np.zeros((D, D)), inverse_of_observed(R, observed)
        for a in range(len(observed)):
            for b in range(len(observed)):
                K[observed[a], observed[b]] = own[a, b]
        return K
    K = P.copy()
    if m:
        columns, own = np.empty((D, m)), np.empty((m, m))
        for b in range(m):
            columns[:, b] = P[:, missing[b]]
            for a in range(m):
                own[a, b] = P[missing[a], missing[b]]
        K -= columns @ np.linalg.solve(own, np.ascontiguousarray(columns.T))
        for b in range(m):
            K[missing[b], :] = 0.0
            K[:, missing[b]] = 0.0
    return K


@njit(cache=True)
def _add_precision(rows, first, patterns, R, P, precision, weighted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Σ K to `precision` and Σ K x to `weighted`."""
    for p in range(len(patterns)):
        if not patterns[p].any():
            continue
        K, total = observed_precision(R, P, patterns[p]), np.zeros(len(R))
        for r in range(first[p], first[p + 1]):
            total += rows[r]
        precision += (first[p + 1] - first[p]) * K
        weighted += K @ total


@njit(cache=True)
def _add_excess(rows, first, patterns, R, P, mean, excess):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Z − Σ K to `excess`."""
    for p in range(len(patterns)):
        if not patterns[p].any():
            continue
        K, n = observed_precision(R, P, patterns[p]), first[p + 1] - first[p]
        scaled = np.empty((n, len(R)))
        for r in range(n):
            for a in range(len(R)):
                scaled[r, a] = rows[first[p] + r, a] - mean[a] if patterns[p, a] else 0.0
        scaled = scaled @ K
        excess += np.ascontiguousarray(scaled.T) @ scaled - n * K
