"""Selection of the parents of a variable from second moments, forward and then backward.

`min_explained` `[m]` is the variance of j that each candidate must explain to be a parent, and at least the share
`noise` of the residual variance. The best candidate is added as long as it explains more. Then parents that explain
less are removed. A selection of p parents among k candidates costs O(k·p²).

A search for an order selects parents again and again while one candidate comes or goes. Therefore the path of a
selection, the parents in the order of their addition, is kept. A candidate that was not added can go, and one that
would explain less than the parent added in each step can come, without any change (`can_enter`, O(p²)).

While an order is wrong, a variable has a large residual variance, of which many candidates explain something by chance.
`noise` excludes these.
"""

import numpy as np

from ..compiled import njit

# A candidate is collinear if its residual variance given the chosen parents is below this share of its variance.
COLLINEARITY_TOLERANCE = 1e-3
# A longer path is not kept, and its selection is always repeated.
MAX_PATH = 16


@njit(cache=True)
def _forward(S, j, allowed, min_explained, most, noise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """At most `most` parents of j among `allowed`: in each step, the candidate that explains most above its minimum.

    The second result is how much each explains above its minimum; the third are Q and the scaled covariances with j.

    Row m of Q is the covariance of the m-th parent with all variables given the parents before it, divided by the
    parent's standard deviation. This row updates each candidate's variance, and its covariance with j, given the
    parents. Adding a parent costs O(d) for each earlier row.
    """
    d = S.shape[0]
    parents = np.empty(most, np.int64)
    gains, scaled_covariances = np.empty(most), np.empty(most)
    Q = np.empty((min(most, 8), d))
    variance, covariance = np.diag(S).copy(), S[j].copy()  # rows of the symmetric S, as columns are slow to read
    free = allowed.copy()
    for m in range(most):
        gain, best, by_chance = 0.0, -1, noise * variance[j]
        for k in range(d):
            if (
                free[k]
                and variance[k] > COLLINEARITY_TOLERANCE * S[k, k]
                and covariance[k] ** 2 > max(gain + min_explained[k], by_chance) * variance[k]
            ):
                gain, best = covariance[k] ** 2 / variance[k] - min_explained[k], k
        if best < 0:
            return parents[:m], gains[:m], (Q[:m], scaled_covariances[:m])
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
        parents[m], gains[m], scaled_covariances[m] = best, gain, scaled
    return parents, gains, (Q[:most], scaled_covariances)


@njit(cache=True)
def select_parents(S, j, allowed, min_explained, most, noise=0.0):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The residual variance of j, and its selected parents among `allowed`; each explains at least its minimum."""
    return _backward(S, j, _forward(S, j, allowed, min_explained, most, noise)[0], min_explained)


@njit(cache=True)
def _backward(S, j, parents, min_explained):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The residual variance of j, and the `parents` without those that explain less than their minimum."""
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


@njit(cache=True)
def new_paths(slots):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Room for the paths of `slots` selections.

    Arrays: lengths (−1: too long to keep), parents in the order of their addition, Cholesky factors of their moments,
    scaled covariances with j, gains above the minimum, scores as of `score_of`, and residual variances.
    """
    return (
        np.zeros(slots, np.int64),
        np.empty((slots, MAX_PATH), np.int64),
        np.empty((slots, MAX_PATH, MAX_PATH)),
        np.empty((slots, MAX_PATH)),
        np.empty((slots, MAX_PATH)),
        np.empty(slots),
        np.empty(slots),
    )


@njit(cache=True)
def select_path(S, j, allowed, min_explained, most, noise, paths, slot):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Select the parents of j among `allowed`, and keep the path in `slot`."""
    lengths, chosen, factors, scaled, gains, scores, variances = paths
    added, gain, (Q, covariances) = _forward(S, j, allowed, min_explained, most, noise)
    variance, parents = _backward(S, j, added, min_explained)
    scores[slot], variances[slot] = variance + min_explained[parents].sum(), variance
    k = len(added)
    lengths[slot] = k if k <= MAX_PATH else -1
    if k <= MAX_PATH:
        chosen[slot, :k], gains[slot, :k], scaled[slot, :k] = added, gain, covariances
        for a in range(k):
            for c in range(a + 1):
                factors[slot, a, c] = Q[c, added[a]]


@njit(cache=True)
def was_added(paths, slot, candidate):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether the selection in `slot` may change if `candidate` is no longer allowed."""
    lengths, chosen = paths[0], paths[1]
    return lengths[slot] < 0 or np.any(chosen[slot, : lengths[slot]] == candidate)


@njit(cache=True)
def can_enter(S, j, candidate, min_explained, most, noise, paths, slot):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether the selection for j in `slot` may change if `candidate` is allowed, too."""
    lengths, chosen, factors, scaled, gains = paths[:5]
    length = lengths[slot]
    if length < 0:
        return True
    variance, covariance, least = S[candidate, candidate], S[candidate, j], min_explained[candidate]
    row, residual = np.empty(length), S[j, j]
    for m in range(min(length + 1, most)):
        if variance <= COLLINEARITY_TOLERANCE * S[candidate, candidate]:
            return False
        if covariance**2 >= max((gains[slot, m] if m < length else 0.0) + least, noise * residual) * variance:
            return True
        if m < length:
            given = S[chosen[slot, m], candidate]
            for a in range(m):
                given -= factors[slot, m, a] * row[a]
            row[m] = given / factors[slot, m, m]
            covariance -= row[m] * scaled[slot, m]
            variance -= row[m] ** 2
            residual -= scaled[slot, m] ** 2
    return False
