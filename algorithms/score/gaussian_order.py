"""Best order score search for Gaussian data from a covariance: the search of `boss.py` without a table of families.

Given an order, the parents of a variable are grown and shrunk among the earlier variables, by the Gaussian BIC with
`price` for each parent: −n/2·ln σ² − ½·price·k (Andrews et al. 2023, Algorithm 2). Scores follow from the covariance,
so none is stored: a selection of p parents among k candidates updates each candidate's variance and covariance given
the chosen parents, O(k·p²), and a search of twenty variables takes some milliseconds. A sweep moves each variable to
its best position, O(d²) selections. Columns beyond the first d, such as the past of time series, precede all
variables: they may be parents only.

Starts and restarts are in `order_starts.py`.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..statistics.moments import unit_diagonal
from .families import OrderSettings
from .order_starts import MISPLACED_PARENT_COST, SCORE_TOLERANCE, BestOrder, Moves, best_of_starts

# A candidate is collinear if its residual variance given the chosen parents is below this share of its variance.
COLLINEARITY_TOLERANCE = 1e-9


def gaussian_boss(
    S: FloatArray, rows: int, price: float, settings: OrderSettings, prior: Prior | None = None, d: int | None = None
) -> BestOrder:
    """The DAG `[m, d]` of the best order found for `rows` rows of covariance `S` `[m, m]`.

    `price` is the penalty on twice the log-likelihood for a parent: ln n for the BIC. The score is the log-likelihood
    minus half the penalties, up to a constant of S. The first `d` columns, by default all, are ordered; the others
    precede them. `prior` is the background knowledge of all columns, `[m, m]`.
    """
    d = len(S) if d is None else d
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    R, knowledge = S / np.outer(scale, scale), prior or no_prior(len(S))
    np.fill_diagonal(R, 1.0)
    possible, required, each = knowledge.possible, knowledge.required, price / rows
    moves = Moves(
        sweep=lambda order: np.asarray(_sweep(R, order, each, possible, required, settings.sweeps)),
        graph=lambda order: _graph(R, order, each, possible, required),
    )
    found = best_of_starts(d, moves, settings)
    return BestOrder(
        found.dag, -0.5 * rows * (found.score + 2 * float(np.log(scale[:d]).sum())), found.starts, found.agreeing
    )


def parents_in_order(
    S: FloatArray, order: NDArray[np.int64], rows: int, price: float, prior: Prior
) -> NDArray[np.bool_]:
    """The DAG `[m, d]` of one `order` `[d]` for `rows` rows of covariance `S` `[m, m]`; arguments as for the search."""
    return np.asarray(_graph(unit_diagonal(S), order, price / rows, prior.possible, prior.required)[0])


@njit(cache=True)
def _sweep(R, order, price, possible, required, sweeps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`order` after moving each variable to its best position, until none moves or after `sweeps` sweeps."""
    Q = np.empty((len(R), len(R)))
    for _ in range(sweeps):
        moved = False
        for x in order.copy():
            place = _best_place(R, order, x, price, possible, required, Q)
            if order[place] != x:
                rest = order[order != x]
                order = np.concatenate((rest[:place], np.array([x]), rest[place:]))
                moved = True
        if not moved:
            break
    return order


@njit(cache=True)
def _best_place(R, order, x, price, possible, required, Q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The position of x in the order with the least total cost; its current position unless another one is better.

    The total with x at position i has the costs of the variables before x, which cannot have x as a parent, of x, and
    of the variables after x, which can.
    """
    d = len(order)
    rest = order[order != x]
    before, change = np.arange(len(R)) >= d, np.empty(d)
    own = _select(R, x, before, price, possible, required, Q, x)[0]
    change[0] = 0.0
    for i in range(d - 1):
        y = rest[i]
        if not (possible[x, y] or possible[y, x] or required[x, y] or required[y, x]):
            before[y], change[i + 1] = True, change[i]
            continue
        before[x] = True
        with_x, _, grown = _select(R, y, before, price, possible, required, Q, x)
        before[x] = False
        without = _select(R, y, before, price, possible, required, Q, x)[0] if grown or required[x, y] else with_x
        before[y] = True
        after = _select(R, x, before, price, possible, required, Q, x)[0]
        change[i + 1] = change[i] + without - with_x + after - own
        own = after
    place = int(np.argmax(order == x))
    if change[place] <= change.min() + SCORE_TOLERANCE:
        return place
    return int(np.argmax(change <= change.min() + SCORE_TOLERANCE))  # the first of those equal up to rounding


@njit(cache=True)
def _graph(R, order, price, possible, required):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The DAG `[m, d]` of `order`, and its total: −2 times its score per row."""
    m, d = len(R), len(order)
    Q, dag, before, total = np.empty((m, m)), np.zeros((m, d), np.bool_), np.arange(m) >= d, 0.0
    for j in order:
        cost, parents, _ = _select(R, j, before, price, possible, required, Q, j)
        total += cost
        for p in parents:
            dag[p, j] = True
        before[j] = True
    return dag, total


@njit(cache=True)
def _select(R, j, before, price, possible, required, Q, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Select parents of j among `before`: return its cost, the parents, and whether x was added while growing.

    If x was not added, the result is the same without x before j.
    """
    candidates = np.flatnonzero(before & possible[:, j])
    forced, late = 0, 0
    for k in range(len(R)):
        if required[k, j]:
            if before[k]:
                at = int(np.argmax(candidates == k))
                candidates[at], candidates[forced] = candidates[forced], candidates[at]
                forced += 1
            else:
                late += 1
    residual, chosen = _grow(R, j, candidates, forced, 1.0 - math.exp(-price), Q)
    grown = bool((candidates[chosen] == x).any())
    if len(chosen) > max(forced, 1):
        residual, chosen = _shrink(R, j, candidates, chosen, forced, residual, math.exp(price) - 1.0, Q)
    return math.log(residual) + price * len(chosen) + MISPLACED_PARENT_COST * late, candidates[chosen], grown


@njit(cache=True)
def _grow(R, j, candidates, forced, least, Q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The residual variance of j, and the numbers of its parents: the first `forced` ones, then repeatedly the best.

    A parent explains at least the share `least` of the residual variance. Row m of Q is the covariance of the m-th
    parent with all candidates given the parents before it, divided by its standard deviation.
    """
    k = len(candidates)
    variance, covariance, free = np.ones(k), R[candidates, j], np.ones(k, np.bool_)
    chosen, m, residual = np.empty(k, np.int64), 0, R[j, j]
    while m < k:
        gain, best = least * residual, -1
        if m < forced:
            best = m
        else:
            for c in range(k):
                if (
                    free[c]
                    and variance[c] > COLLINEARITY_TOLERANCE
                    and covariance[c] * covariance[c] > gain * variance[c]
                ):
                    gain, best = covariance[c] * covariance[c] / variance[c], c
        if best < 0:
            break
        root = math.sqrt(max(variance[best], COLLINEARITY_TOLERANCE))
        of_best = covariance[best] / root
        for c in range(k):
            given = R[candidates[c], candidates[best]]
            for a in range(m):
                given -= Q[a, c] * Q[a, best]
            Q[m, c] = given / root
            covariance[c] -= Q[m, c] * of_best
            variance[c] -= Q[m, c] * Q[m, c]
        residual = max(residual - of_best * of_best, COLLINEARITY_TOLERANCE * R[j, j])
        free[best] = False
        chosen[m] = best
        m += 1
    return residual, chosen[:m]


@njit(cache=True)
def _shrink(R, j, candidates, chosen, forced, residual, least, Q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The residual variance of j, and the parents after removing those that explain too little beyond the others."""
    m = len(chosen)
    P = _inverse_moments(Q, chosen)
    b = np.zeros(m)
    for a in range(m):
        for c in range(m):
            b[a] += P[a, c] * R[candidates[chosen[c]], j]
    stays = np.ones(m, np.bool_)
    while True:
        weakest, explains = -1, np.inf
        for a in range(forced, m):
            if stays[a] and b[a] * b[a] < explains * P[a, a]:
                weakest, explains = a, b[a] * b[a] / P[a, a]
        if weakest < 0 or explains >= least * residual:
            break
        stays[weakest] = False
        residual += explains
        for a in range(m):
            share = P[a, weakest] / P[weakest, weakest]
            if stays[a]:
                b[a] -= share * b[weakest]
                for c in range(m):
                    if stays[c]:
                        P[a, c] -= share * P[weakest, c]
    return residual, chosen[stays]


@njit(cache=True)
def _inverse_moments(Q, chosen):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The inverse of the chosen parents' moments UᵀU, where U[a, c] = Q[a, chosen[c]] is upper triangular."""
    m = len(chosen)
    inverse = np.zeros((m, m))
    for c in range(m):
        inverse[c, c] = 1.0 / Q[c, chosen[c]]
        for a in range(c - 1, -1, -1):
            for t in range(a + 1, c + 1):
                inverse[a, c] -= Q[a, chosen[t]] * inverse[t, c]
            inverse[a, c] /= Q[a, chosen[a]]
    return inverse @ inverse.T
