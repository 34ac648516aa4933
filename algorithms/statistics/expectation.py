"""The E-step for a Gaussian with empty cells: the second moments that a silo's rows are expected to have.

Source: Dempster, Laird, Rubin 1977; Little, Rubin 2002, "Statistical Analysis with Missing Data", §11.2. Of a row x of
which the columns o are there, with precision K = S_oo⁻¹ of these (zero elsewhere), the deviations from the mean μ are
expected to be S K (x − μ), and to vary about that by S − S K S. So all rows together give

    n S + S (Z − Σ K) S,   Z = Σ K (x − μ)(x − μ)ᵀ K,

and μ is the silo's own maximum likelihood mean given S: it solves (Σ K) μ = Σ K x. A silo keeps it to itself, as a
silo's means always stay with it; so what it answers follows from S and its rows alone. Rows with the same empty cells
share K: they are taken together, O(D³) for each such pattern and O(D²) for each row.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from .chunks import Table, chunks
from .coding import Coding, coding_of
from .moments import about_means, centred_moments, pooled_packing


@dataclass(frozen=True)
class Expected:
    """What a silo's rows are expected to give: their mean `[D]`, and second moments about it `[D, D]`, summed."""

    mean: FloatArray
    products: FloatArray


@dataclass(frozen=True)
class Patterns:
    """Coded rows `[n_rows, D]`, zero where a cell is empty, those with the same empty cells one after another."""

    rows: FloatArray
    first: NDArray[np.int64]
    """where each pattern begins, and the end, `[n_patterns + 1]`"""
    known: NDArray[np.bool_]
    """which cells are there in each pattern, `[n_patterns, D]`"""


def patterns(coded: FloatArray) -> Patterns:
    """Return the rows of `coded` `[n_rows, D]` by which of their cells are empty."""
    known = ~np.isnan(coded)
    packed = np.packbits(known, axis=1)
    order = np.lexsort(packed.T)
    packed = packed[order]
    begins = np.flatnonzero(np.concatenate([[True], (packed[1:] != packed[:-1]).any(axis=1)]))
    rows = np.where(known, coded, 0.0)[order]
    return Patterns(rows, np.append(begins, len(rows)), known[order[begins]])


def about_own_means(table: Table, schema: Schema) -> Expected:
    """Return the means of the coded `table` `[n_rows, d]` and its second moments about them: expected ones if need be.

    So they are where cells are empty; all silos must have found out `schema.filling` then.
    """
    coding = coding_of(schema)
    if schema.gaps:
        return expected(table, coding, schema.filling.covariance)
    return Expected(*about_means(coding.coded(table)))


def own_moments(table: Table, schema: Schema, silo: str) -> FloatArray:
    """Return `centred_moments` of the coded `table` `[n_rows, d]`, or those expected where cells are empty.

    Rows then count for as much as they are worth together: `schema.filling` says so.
    """
    n, coding = table.shape[0], coding_of(schema)
    lengths = schema.stretches.get(silo, (n,))
    if not schema.gaps:
        return centred_moments(coding.coded(table), lengths)
    total = np.zeros((coding.size, coding.size))
    for part in np.split(table, np.cumsum(lengths)[:-1]) if isinstance(table, np.ndarray) else (table,):
        total += expected(part, coding, schema.filling.covariance).products
    share = schema.filling.rows / sum(schema.rows.values())
    rows = share * (n - len(lengths))
    return pooled_packing(coding.size).pack(rows=rows, sums=np.zeros(coding.size), products=share * total)


def expected(table: Table, coding: Coding, S: FloatArray) -> Expected:
    """Return what the rows of `table` `[n_rows, d]` are expected to give if they have covariance `S` `[D, D]`.

    Raises `ValueError` if that is not known: a mistake of the program, not of the user.
    """
    D = coding.size
    if len(S) != D:
        raise ValueError("rows with empty cells have no moments before all silos have found out their covariance")
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    precision, weighted, n = np.zeros((D, D)), np.zeros(D), 0
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _weigh(part.rows, part.first, part.known, R, precision, weighted)
        n += len(rows)
    mean = np.linalg.lstsq(precision, weighted)[0]
    excess = np.zeros((D, D))
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _exceed(part.rows, part.first, part.known, R, mean, excess)
    return Expected(np.asarray(mean * scale, np.float64), (n * R + R @ excess @ R) * np.outer(scale, scale))


@njit(cache=True)
def _precision(R, known):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the inverse of the rows and columns `known` of R."""
    k = len(known)
    own = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            own[a, b] = R[known[a], known[b]]
    return np.linalg.inv(own)


@njit(cache=True)
def _weigh(rows, first, known, R, precision, weighted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Σ K to `precision` and Σ K x to `weighted`."""
    for p in range(len(known)):
        there = np.flatnonzero(known[p])
        n = first[p + 1] - first[p]
        K = _precision(R, there)
        for a in range(len(there)):
            total = 0.0
            for r in range(first[p], first[p + 1]):
                total += rows[r, there[a]]
            for b in range(len(there)):
                precision[there[b], there[a]] += n * K[b, a]
                weighted[there[b]] += K[b, a] * total


@njit(cache=True)
def _exceed(rows, first, known, R, mean, excess):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Z − Σ K to `excess`."""
    for p in range(len(known)):
        there = np.flatnonzero(known[p])
        k = len(there)
        K, T, y = _precision(R, there), np.zeros((k, k)), np.empty(k)
        for r in range(first[p], first[p + 1]):
            for a in range(k):
                y[a] = rows[r, there[a]] - mean[there[a]]
            for a in range(k):
                for b in range(a + 1):
                    T[a, b] += y[a] * y[b]
        for a in range(k):
            for b in range(a):
                T[b, a] = T[a, b]
        n = first[p + 1] - first[p]
        found = K @ T @ K - n * K
        for a in range(k):
            for b in range(k):
                excess[there[a], there[b]] += found[a, b]
