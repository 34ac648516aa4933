"""The model of a round, and the order of the variables that it implies (ours; Chen, Drton & Wang 2019).

A consensus W that respects an order, and the variances v of the residuals under it, define a model: the covariance
Σ = A⁻ᵀ diag(v) A⁻¹ with A = I − W. With all entries that the order allows fitted, Σ is the second moments of all rows,
whatever the order was. Where errors have equal variances, the order can then be read off it from the top: next comes
the variable of least variance given all that came before. No silo has sent more than weights and residual variances.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray


def implied_covariance(W: FloatArray, variances: FloatArray) -> FloatArray:
    """Return the covariance `[d, d]` of variables with weights `W`, acyclic, and errors of these `variances` `[d]`."""
    A = np.linalg.inv(np.eye(len(W)) - W)
    return np.asarray(A.T @ np.diag(variances) @ A)


def top_down(covariance: FloatArray, precedes: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], FloatArray]:
    """Return each variable's place, `[d]`, and its variance given all before it, `[d]`, least variance first.

    None comes before one that `precedes` it, `[d, d]`. Source: Chen, Drton & Wang 2019, Algorithm 1, by an elimination
    that costs O(d³) in all.
    """
    d = len(covariance)
    before = np.zeros((d, d), bool) if precedes is None else precedes
    left, place, variances = covariance.copy(), np.full(d, -1, dtype=np.int64), np.empty(d)
    for at in range(d):
        may_be_next = (place < 0) & ~before[place < 0].any(axis=0)
        given = np.where(may_be_next, np.diag(left), np.inf)
        j = int(np.argmin(given))
        place[j], variances[j] = at, given[j]
        left -= np.outer(left[:, j], left[j]) / left[j, j]
    return place, variances


def least_squares(S: FloatArray, right: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """Return B `[m, d]` with S·B = `right` in the `free` entries of each column, and zero elsewhere.

    S is `[m, m]` and positive definite; with `right` = S each variable is regressed on those that are free to it.
    """
    B = np.zeros_like(right)
    for j in range(right.shape[1]):
        rows = np.flatnonzero(free[:, j])
        B[rows, j] = np.linalg.solve(S[np.ix_(rows, rows)], right[rows, j])
    return B
