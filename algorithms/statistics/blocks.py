"""The correlations of a coded table, each variable a block of columns: what the degenerate Gaussian model rests on.

Source: Andrews, Ramsey, Cooper 2019: Learning High-dimensional Directed Acyclic Graphs with Mixed Data-types.

Everything it asks is ln|R_XX·Z|, the log determinant of what a set of variables leaves of another one's correlations:
scores and likelihood ratios are differences of such. Levels that hardly any row has are merged into another one first,
as an indicator of so few rows is anything but Gaussian. That, too, is read off the sum: n times the variance of an
indicator is about how many rows have its level.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .coding import Coding
from .moments import ROUNDING, pooled_packing

FEW = 10
"""a level that so many rows have, or fewer, is merged into another one"""
COLLINEAR = 1e-10
"""what others leave of a column's variance is not taken for less than this share: so little is rounding"""


@dataclass(frozen=True)
class Blocks:
    """Correlations `R` `[K, K]` of coded columns; those of variable j are `first[j]` to `first[j + 1]`, `[d + 1]`.

    A variable that is constant, or has but one level that is not rare, has no column.
    """

    rows: int
    R: FloatArray
    first: NDArray[np.int64]


def blocks_of(moments: FloatArray, coding: Coding) -> Blocks:
    """Return the correlations that the (summed) pooled `moments` of the coded columns give, without rare levels."""
    one = pooled_packing(coding.size).unpack(moments)
    rows = int(one["rows"])
    mean_square = np.diag(one["products"]) / rows
    S = one["products"] / rows - np.outer(one["sums"], one["sums"]) / rows**2
    return blocks_of_covariance(S, rows, coding, np.asarray(np.diag(S) > ROUNDING * mean_square))


def blocks_of_covariance(
    S: FloatArray, rows: int, coding: Coding, varies: NDArray[np.bool_] | None = None, few: float = FEW
) -> Blocks:
    """Return the correlations of the coded columns of covariance `S` `[D, D]` that vary, without rare levels."""
    keep = np.diag(S) > 0 if varies is None else varies & (np.diag(S) > 0)
    for j, block in enumerate(coding.blocks):
        if coding.discrete[j]:
            keep[block] &= _kept(S[np.ix_(block, block)] * rows, few)
    scale = np.sqrt(np.diag(S)[keep])
    R = S[np.ix_(keep, keep)] / np.outer(scale, scale)
    np.fill_diagonal(R, 1.0)
    widths = [int(keep[block].sum()) for block in coding.blocks]
    return Blocks(rows, np.ascontiguousarray(R), np.concatenate([[0], np.cumsum(widths)]).astype(np.int64))


def _kept(scatter: FloatArray, few: float) -> NDArray[np.bool_]:
    """Return which indicators of one variable stay, `[width]`, by the sum of their products about the means.

    Without the indicator of a rare level, the level belongs to the first one, which has none. If the first is rare
    itself, it joins the commonest level, which is of all levels the one whose indicator varies most.
    """
    counts = np.diag(scatter)
    keep = counts > few
    if keep.any() and scatter.sum() <= few:
        keep[int(np.argmax(counts))] = False
    return np.asarray(keep)


@njit(cache=True)
def log_left(R, first, child, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return ln|R_XX·Z|: X the columns of variable `child`, Z those of all `parents`; 0 if X has no column.

    By a Cholesky factor of the parents' correlations with the child's below, row by row. A parent's column that the
    others determine adds nothing.
    """
    k = 0
    for p in parents:
        k += first[p + 1] - first[p]
    given = k
    columns = np.empty(k + first[child + 1] - first[child], np.int64)
    k = 0
    for m in range(len(parents) + 1):
        v = child if m == len(parents) else parents[m]
        for column in range(first[v], first[v + 1]):
            columns[k] = column
            k += 1
    L, total = np.zeros((k, k)), 0.0
    for i in range(k):
        for j in range(i):
            dot = R[columns[i], columns[j]]
            for t in range(j):
                dot -= L[i, t] * L[j, t]
            L[i, j] = dot / L[j, j] if L[j, j] > 0 else 0.0
        left = 1.0
        for t in range(i):
            left -= L[i, t] * L[i, t]
        if i >= given:
            left = max(left, COLLINEAR)
            total += math.log(left)
        L[i, i] = math.sqrt(left) if left > COLLINEAR else 0.0
    return total
