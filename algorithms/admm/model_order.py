"""The model of a round, and the order of the variables that it implies (ours; Chen, Drton & Wang 2019).

A consensus W that respects an order, and the variances v of the residuals under it, define a model: the covariance
Σ = A⁻ᵀ diag(v) A⁻¹ with A = I − W. With all entries that the order allows fitted, Σ is the second moments of all rows,
whatever the order was. Where errors have equal variances, the order can then be read off it from the top
(`statistics/top_down.py`). No silo has sent more than weights and residual variances.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray


def implied_covariance(W: FloatArray, variances: FloatArray) -> FloatArray:
    """Return the covariance `[d, d]` of variables with weights `W`, acyclic, and errors of these `variances` `[d]`."""
    A = np.linalg.inv(np.eye(len(W)) - W)
    return np.asarray(A.T @ np.diag(variances) @ A)


def least_squares(S: FloatArray, right: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """Return B `[m, d]` with S·B = `right` in the `free` entries of each column, and zero elsewhere.

    S is `[m, m]` and positive definite; with `right` = S each variable is regressed on those that are free to it.
    """
    B = np.zeros_like(right)
    for j in range(right.shape[1]):
        rows = np.flatnonzero(free[:, j])
        B[rows, j] = np.linalg.solve(S[np.ix_(rows, rows)], right[rows, j])
    return B
