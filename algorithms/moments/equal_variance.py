"""Learning a linear SEM whose errors have equal variances from its second moments (Chen, Drton, Wang 2019).

With equal error variances, a variable whose parents are all known has the smallest possible conditional variance. An
order can therefore be read off from the top: first the variable of least variance, then the one of least variance given
the first, and so on. Conditioning on all earlier variables would accumulate the noise in S, so each variable is
regressed on few of them: parents are added while they explain more than `price`, and removed again when they do not
(forward, then backward selection). The order is then improved by moving single variables as long as that lowers Σ_j
(v_j + price · number of parents of j), with v_j the residual variance.

Cost: a selection of p parents among k candidates takes O(k·p²), so the order takes O(d³p²), a pass of moves the same.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.lagged import given_the_past

# A candidate of whose variance the chosen parents leave less than this share adds nothing of its own.
COLLINEAR = 1e-3


@dataclass(frozen=True)
class Ordered:
    """Weights `[m, d]` and the order they respect, `[d]`: first to last."""

    weights: FloatArray
    order: NDArray[np.int64]


def equal_variance(
    S: FloatArray, price: float | FloatArray, most_parents: int, passes: int, d: int | None = None
) -> Ordered:
    """Return the weights and the order of the variables for second moments `S` `[m, m]`, positive definite.

    `price` is what a parent must explain, in units of the least variance, any or each, `[m]`; `passes` bounds the
    rounds of moves. The first `d` variables, by default all, are put in order; the others come before them: lagged
    ones, of time series. The least variance is then that which these leave.
    """
    d = len(S) if d is None else d
    most = min(most_parents, len(S) - 1)
    first = np.arange(len(S)) >= d
    prices = np.broadcast_to(price, len(S)).astype(np.float64)
    least = prices * float(np.diag(S)[:d].min())
    if d < len(S):
        least = prices * min(_select(S, j, first, least, most)[0] for j in range(d))
    order = _improved(S, first, _top_down(S, first, least, most), least, most, passes)
    weights = np.zeros((len(S), d))
    before = first.copy()
    for j in order:
        _, parents = _select(S, j, before, least, most)
        if len(parents):
            weights[parents, j] = np.linalg.solve(S[np.ix_(parents, parents)], S[parents, j])
        before[j] = True
    return Ordered(weights, order)


def selected(S: FloatArray, parents: NDArray[np.bool_], price: float, most_parents: int) -> FloatArray:
    """Return the weights `[m, d]` of what is selected for each of the d variables among `parents` `[d, d]` and lags.

    `price` is what a parent must explain, in units of the least variance, for second moments `S` `[m, m]`.
    """
    d = len(parents)
    most, lagged = min(most_parents, len(S) - 1), np.ones(len(S) - d, dtype=np.bool_)
    least = np.full(len(S), price * float(np.diag(given_the_past(S, d)).min()))
    weights = np.zeros((len(S), d))
    for j in range(d):
        _, chosen = _select(S, j, np.concatenate([parents[:, j], lagged]), least, most)
        if len(chosen):
            weights[chosen, j] = np.linalg.solve(S[np.ix_(chosen, chosen)], S[chosen, j])
    return weights


@njit(cache=True)
def _forward(S, j, allowed, price, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return parents of j among `allowed`, each the one that explains most above its price, while there is one.

    Row m of Q is the m-th parent's covariance with everything given the parents before it, over its deviation: with it
    every candidate's variance and covariance with j given the parents is kept up to date in O(d) a parent and row.
    """
    d = S.shape[0]
    parents = np.empty(most, np.int64)
    Q = np.empty((most, d))
    variance, covariance = np.diag(S).copy(), S[:, j].copy()
    free = allowed.copy()
    for m in range(most):
        gain, best = 0.0, -1
        for k in range(d):
            if free[k] and variance[k] > COLLINEAR * S[k, k] and covariance[k] ** 2 > (gain + price[k]) * variance[k]:
                gain, best = covariance[k] ** 2 / variance[k] - price[k], k
        if best < 0:
            return parents[:m]
        for k in range(d):
            given = S[k, best]
            for a in range(m):
                given -= Q[a, k] * Q[a, best]
            Q[m, k] = given / np.sqrt(variance[best])
        for k in range(d):
            covariance[k] -= Q[m, k] * Q[m, j]
        for k in range(d):
            variance[k] -= Q[m, k] ** 2
        free[best] = False
        parents[m] = best
    return parents


@njit(cache=True)
def _select(S, j, allowed, price, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the variance of j left by its parents among `allowed`, and those: none explains less than its price."""
    parents = _forward(S, j, allowed, price, most)
    while len(parents) > 0:
        m = len(parents)
        A, b = np.empty((m, m)), np.empty(m)
        for a in range(m):
            b[a] = S[parents[a], j]
            for c in range(m):
                A[a, c] = S[parents[a], parents[c]]
        inverse = np.linalg.inv(A)
        weights = inverse @ b
        worth = weights**2 / np.diag(inverse) - price[parents]
        weakest = int(np.argmin(worth))
        if worth[weakest] >= 0:
            return S[j, j] - b @ weights, parents
        parents = np.concatenate((parents[:weakest], parents[weakest + 1 :]))
    return S[j, j], parents


@njit(cache=True)
def _score(S, j, allowed, price, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    variance, parents = _select(S, j, allowed, price, most)
    return variance + price[parents].sum()


@njit(cache=True)
def _top_down(S, first, price, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the order in which, each time, the variable of least variance given those before comes next."""
    d = len(first) - first.sum()
    order, done = np.empty(d, np.int64), first.copy()
    variance = np.diag(S).copy()
    for j in range(d if first.any() else 0):
        variance[j] = _select(S, j, done, price, most)[0]
    for place in range(d):
        best = int(np.argmin(np.where(done, np.inf, variance)))
        order[place] = best
        done[best] = True
        for j in range(d):
            if not done[j]:
                variance[j] = _select(S, j, done, price, most)[0]
    return order


@njit(cache=True)
def _best_move(S, first, order, score, place, price, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the best new place for the variable at `place`, and by how much the total score then changes.

    The variable walks away from its place one step at a time; a step changes the possible parents of the neighbour that
    it passes, and of no other variable.
    """
    d = len(order)
    mover = order[place]
    best, to = 0.0, place
    for step in (-1, 1):
        before = first.copy()
        before[order[:place]] = True
        passed = 0.0
        at = place + step
        while 0 <= at < d:
            neighbour = order[at]
            before[neighbour] = False
            before[mover] = step < 0
            passed += _score(S, neighbour, before, price, most) - score[neighbour]
            before[mover] = False
            before[neighbour] = step > 0
            change = passed + _score(S, mover, before, price, most) - score[mover]
            if change < best - 1e-9 * S[mover, mover]:
                best, to = change, at
            at += step
    return to


@njit(cache=True)
def _improved(S, first, order, price, most, passes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return `order` after moving each variable in turn to its best place, until none moves or `passes` are over."""
    d = len(order)
    for _ in range(passes):
        moved = False
        for mover in range(d):
            score, before = np.empty(d), first.copy()
            for j in order:
                score[j] = _score(S, j, before, price, most)
                before[j] = True
            place = int(np.argmax(order == mover))
            to = _best_move(S, first, order, score, place, price, most)
            if to != place:
                moved = True
                others = np.concatenate((order[:place], order[place + 1 :]))
                order = np.concatenate((others[:to], np.array([mover]), others[to:]))
        if not moved:
            break
    return order
