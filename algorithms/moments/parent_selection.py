"""Selection of the parents of a variable from second moments, forward and then backward.

`min_explained` `[m]` is the variance of j that each candidate must explain to be a parent. The best candidate is added
as long as it explains more. Then parents that explain less are removed. A selection of p parents among k candidates
costs O(k·p²).
"""

import numpy as np

from ..compiled import njit

# A candidate is collinear if its residual variance given the chosen parents is below this share of its variance.
COLLINEARITY_TOLERANCE = 1e-3


@njit(cache=True)
def _forward(S, j, allowed, min_explained, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """At most `most` parents of j among `allowed`: in each step, the candidate that explains most above its minimum.

    Row m of Q is the covariance of the m-th parent with all variables given the parents before it, divided by the
    parent's standard deviation. This row updates each candidate's variance, and its covariance with j, given the
    parents. Adding a parent costs O(d) for each earlier row.
    """
    d = S.shape[0]
    parents = np.empty(most, np.int64)
    Q = np.empty((min(most, 8), d))
    variance, covariance = np.diag(S).copy(), S[j].copy()  # rows of the symmetric S, as columns are slow to read
    free = allowed.copy()
    for m in range(most):
        gain, best = 0.0, -1
        for k in range(d):
            if (
                free[k]
                and variance[k] > COLLINEARITY_TOLERANCE * S[k, k]
                and covariance[k] ** 2 > (gain + min_explained[k]) * variance[k]
            ):
                gain, best = covariance[k] ** 2 / variance[k] - min_explained[k], k
        if best < 0:
            return parents[:m]
        if m == len(Q):
            Q = np.concatenate((Q, np.empty((min(most - m, m), d))))
        given, scale = Q[m], np.sqrt(variance[best])
        for k in range(d):
            given[k] = S[best, k]
        for a in range(m):
            factor = Q[a, best]
            for k in range(d):
                given[k] -= Q[a, k] * factor
        scaled = given[j] / scale
        for k in range(d):
            given[k] /= scale
            covariance[k] -= given[k] * scaled
            variance[k] -= given[k] ** 2
        free[best] = False
        parents[m] = best
    return parents


@njit(cache=True)
def select_parents(S, j, allowed, min_explained, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The residual variance of j, and its selected parents among `allowed`; each explains at least its minimum."""
    parents = _forward(S, j, allowed, min_explained, most)
    while len(parents) > 0:
        m = len(parents)
        A, b = np.empty((m, m)), np.empty(m)
        for a in range(m):
            b[a] = S[parents[a], j]
            for c in range(m):
                A[a, c] = S[parents[a], parents[c]]
        inverse = np.linalg.inv(A)
        weights = inverse @ b
        worth = weights**2 / np.diag(inverse) - min_explained[parents]
        weakest = int(np.argmin(worth))
        if worth[weakest] >= 0:
            return S[j, j] - b @ weights, parents
        parents = np.concatenate((parents[:weakest], parents[weakest + 1 :]))
    return S[j, j], parents


@njit(cache=True)
def score_of(S, j, allowed, min_explained, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The residual variance of j plus the minimum of each selected parent: lower is better."""
    variance, parents = select_parents(S, j, allowed, min_explained, most)
    return variance + min_explained[parents].sum()
