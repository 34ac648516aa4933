"""The fit without λ: consensus ADMM under a fixed order, in the metric of the model (our own method).

In dense graphs, the mean square of a variable exceeds its variance given the earlier variables by factors up to 10⁵. If
the consensus is weighted by mean squares (ρ₂·m_i), silos can then hardly move away from W, and a stopping rule relative
to the norm of W stops long before the weights are right. So the distance to W is measured in the metric of the
covariance Σ = A⁻ᵀ diag(v) A⁻¹, A = I − W, which W and the variances v of the residuals under W imply. Σ is near the
curvature of every silo's loss:

    silo:    β_p ← β_p + ρΣ(B_p − W)
             B_p ← argmin L_p(B) + ⟨β_p, B − W⟩ + ρ/2 tr((B − W)ᵀ Σ (B − W))
    server:  W ← (1/P) Σ_p B_p

Σ_p β_p starts at zero and stays zero, so the mean needs no correction. ρ = √(d/n_p), with n_p the silos' mean number of
rows, is about the relative distance of a silo's moments from the moments of all rows. A column has converged when the
change of its prediction is small relative to its residuals. A round in this metric removes most of the error, also in
dense graphs.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..secure.masks import FRACTION_BITS
from ..statistics.moments import to_multiples

AT_ONCE = 1_000_000
"""approximate maximum number of entries of the systems of equations that are solved together"""


def implied_covariance(W: FloatArray, variances: FloatArray) -> FloatArray:
    """The covariance `[d, d]` of variables with weights `W`, acyclic, and errors of these `variances` `[d]`."""
    A = np.linalg.inv(np.eye(len(W)) - W)
    return np.asarray((A.T * variances) @ A)


def least_squares(S: FloatArray, right: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """B `[m, d]` with S·B = `right` in the `free` entries of each column, and zero elsewhere.

    S is `[m, m]` and positive definite. With `right` = S, each variable is regressed on the variables of its free
    entries. If these are its predecessors in a common order, one factorisation serves all columns: O(d³), not O(d⁴).
    """
    order, counts = np.argsort(-free.sum(axis=1), kind="stable"), free.sum(axis=0)
    leading = np.arange(len(S))[:, None] < counts
    B = np.zeros_like(right)
    if np.array_equal(free[order], leading):
        from scipy.linalg import solve_triangular  # imported late: most learners fit nothing in an order

        L = np.linalg.cholesky(S[np.ix_(order, order)])
        # The first k unknowns of L·y = r depend only on the first k rows. If y is 0 after row k, so is b in Lᵀ·b = y.
        B[order] = solve_triangular(
            L, np.where(leading, solve_triangular(L, right[order], lower=True), 0), trans=1, lower=True
        )
        return B
    # Small systems of one size are solved together.
    for count in np.unique(counts[counts > 0]):
        same = np.flatnonzero(counts == count)
        for columns in np.array_split(same, max(1, len(same) * count**2 // AT_ONCE)):
            rows = np.nonzero(free[:, columns].T)[1].reshape(-1, count)
            entries = rows, columns[:, None]
            B[entries] = np.linalg.solve(S[rows[:, :, None], rows[:, None, :]], right[entries][..., None])[..., 0]
    return B


def metric_weight(d: int, rows: float) -> float:
    """ρ = √(d/n_p), at most 1, for silos of n_p = `rows` rows on average."""
    return min(1.0, float(np.sqrt(d / rows)))


def dual_step(beta: FloatArray, apart: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """β_p + ρΣ(B_p − W) in the `free` entries, zero elsewhere; `metric` is ρΣ and `apart` is B_p − W."""
    return np.where(free, beta + metric @ apart, 0.0)


def fit_silo(S: FloatArray, beta: FloatArray, W: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """The silo's B_p `[d, d]` for moments `S`, in multiples of 2⁻³²: (S + ρΣ)B = S − β + ρΣW where `free`."""
    B = least_squares(S + metric, S - beta + metric @ W, free)
    return to_multiples(B, FRACTION_BITS)


def column_change(change: FloatArray, W: FloatArray, variances: FloatArray) -> float:
    """The largest change of a variable's prediction under a `change` of W, relative to its residuals.

    Both are measured as standard deviations: √(ΔW_jᵀ Σ ΔW_j / v_j), with v the `variances` of the residuals under `W`.
    """
    moved = np.einsum("ij,ik,kj->j", change, implied_covariance(W, variances), change, optimize=True)
    return float(np.sqrt(np.maximum(moved / variances, 0.0).max()))
