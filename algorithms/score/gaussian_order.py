"""Best order score search for Gaussian data from a covariance: the search of `boss.py` without a table of families.

Given an order, the parents of a variable are grown and shrunk among the earlier variables (Andrews et al. 2023,
Algorithm 2). The score of k parents is Gaussian BIC with a `price` for each parent: −n/2·ln σ² − ½·price·k.

Scores follow from the covariance, so none is stored. Selecting p parents among k candidates updates each candidate's
variance and covariance given the chosen parents, in O(k·p²). A search over twenty variables takes some milliseconds.
A sweep moves each variable to its best position, and compares O(d²) selections. Nearly every selection differs from
the previous one by a single candidate. A check in O(p²) shows whether this candidate changes how the parents are grown
(`_would_grow`). Only if it does, they are selected again.

Columns beyond the first d, such as the past of time series, precede all variables, and can only be parents. Starts and
restarts are those of `order_starts.py`.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..statistics.moments import unit_diagonal
from .order_starts import MISPLACED_PARENT_COST, SCORE_TOLERANCE, BestOrder, Moves, best_of_starts
from .settings import OrderSettings

# A candidate is collinear if its residual variance given the chosen parents is below this share of its variance.
COLLINEARITY_TOLERANCE = 1e-9
MAX_PATH = 128
"""largest number of grown parents that are stored"""
TOO_LONG = -1
"""the size of a path that is not stored"""
PATH_MARGIN = 1e-6
"""relative difference of two explained variances that may be due to rounding"""


def gaussian_boss(
    S: FloatArray,
    rows: int,
    price: float,
    settings: OrderSettings,
    prior: Prior | None = None,
    d: int | None = None,
    ends: float = math.inf,
) -> BestOrder:
    """The DAG `[m, d]` of the best order found for `rows` rows of covariance `S` `[m, m]`.

    `price` is the penalty on twice the log-likelihood for a parent: ln n for the BIC. The score is the log-likelihood
    minus half the penalties, up to a constant of S. The first `d` columns, by default all, are ordered; the others
    precede them. `prior` is the background knowledge of all columns, `[m, m]`. The search ends at the time `ends` of
    `time.monotonic` at the latest.
    """
    d = len(S) if d is None else d
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    R, knowledge = S / np.outer(scale, scale), prior or no_prior(len(S))
    np.fill_diagonal(R, 1.0)
    possible, required, each = knowledge.possible, knowledge.required, price / rows
    moves = Moves(
        sweep=lambda order, movers, sweeps: np.asarray(_sweep(R, order, movers, each, possible, required, sweeps)),
        graph=lambda order: _graph(R, order, each, possible, required),
    )
    found = best_of_starts(d, moves, settings, ends)
    return replace(found, score=-0.5 * rows * (found.score + 2 * float(np.log(scale[:d]).sum())))


def parents_in_order(
    S: FloatArray, order: NDArray[np.int64], rows: int, price: float, prior: Prior
) -> NDArray[np.bool_]:
    """The DAG `[m, d]` of one `order` `[d]` for `rows` rows of covariance `S` `[m, m]`, as in `gaussian_boss`."""
    return np.asarray(_graph(unit_diagonal(S), order, price / rows, prior.possible, prior.required)[0])


class Paths(NamedTuple):
    """How the parents of each variable were grown.

    Row j is the path of variable j at its place in the current order. Row d is that of the variable that moves, at the
    position that is being examined.
    """

    cost: FloatArray
    """the cost of the parents, `[d + 1]`"""
    size: NDArray[np.int64]
    """the number of parents that were grown, before any was removed; `TOO_LONG` if they are not stored"""
    grown: NDArray[np.int64]
    """these parents in the order of growing, `[d + 1, MAX_PATH]`"""
    factor: FloatArray
    """the Cholesky factor of their covariance, its upper triangle by columns, `[d + 1, MAX_PATH·(MAX_PATH + 1)/2]`"""
    effect: FloatArray
    """the square root of the variance that each parent explained when it was added, with the sign of the effect"""
    least: FloatArray
    """the variance that another candidate must explain to be added in place of each parent, or after the last parent"""


@njit(cache=True)
def _empty_paths(d):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return Paths(
        np.zeros(d + 1),
        np.zeros(d + 1, np.int64),
        np.zeros((d + 1, MAX_PATH), np.int64),
        np.zeros((d + 1, MAX_PATH * (MAX_PATH + 1) // 2)),
        np.zeros((d + 1, MAX_PATH)),
        np.zeros((d + 1, MAX_PATH + 1)),
    )


@njit(cache=True)
def _sweep(R, order, movers, price, possible, required, sweeps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`order` after at most `sweeps` sweeps that move each of `movers` to its best position, until none moves."""
    m, d = len(R), len(order)
    Q, paths = np.empty((m, m)), _empty_paths(d)
    before = np.arange(m) >= d
    for j in order:
        _store(paths, j, R, j, before, price, possible, required, Q)
        before[j] = True
    for _ in range(sweeps):
        moved = False
        for x in movers if len(movers) < d else order.copy():
            at = int(np.argmax(order == x))
            place = _best_place(R, order, x, at, price, possible, required, Q, paths)
            if place != at:
                rest = order[order != x]
                order = np.concatenate((rest[:place], np.array([x]), rest[place:]))
                _update(R, order, x, at, place, price, possible, required, Q, paths)
                moved = True
        if not moved:
            break
    return order


@njit(cache=True)
def _best_place(R, order, x, at, price, possible, required, Q, paths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The position of x in the order with the least total cost; its current one, `at`, unless another one is better.

    The total with x at position i is the sum of three costs: of the variables before x, which cannot have x as a
    parent; of x; and of the variables after x, which can. Most of these costs are known from the current order or from
    the previous position. Parents are selected again only if the candidate that is added or removed changes how they
    are grown.
    """
    d = len(order)
    rest = order[order != x]
    before, change = np.arange(len(R)) >= d, np.empty(d)
    own = _store(paths, d, R, x, before, price, possible, required, Q)
    change[0] = 0.0
    for i in range(d - 1):
        y = rest[i]
        if not (possible[x, y] or possible[y, x] or required[x, y] or required[y, x]):
            before[y], change[i + 1] = True, change[i]
            continue
        with_x = without = paths.cost[y]
        if i >= at:
            if required[x, y] or _has_grown(paths, y, x):
                without = _select(R, y, before, price, possible, required, Q)[0]
        elif required[x, y] or (possible[x, y] and _would_grow(paths, y, R, y, x)):
            before[x] = True
            with_x = _select(R, y, before, price, possible, required, Q)[0]
            before[x] = False
        before[y] = True
        after = own
        if required[y, x] or (possible[y, x] and _would_grow(paths, d, R, x, y)):
            after = _store(paths, d, R, x, before, price, possible, required, Q)
        change[i + 1] = change[i] + without - with_x + after - own
        own = after
    if change[at] <= change.min() + SCORE_TOLERANCE:
        return at
    return int(np.argmax(change <= change.min() + SCORE_TOLERANCE))  # the first of several equal up to rounding


@njit(cache=True)
def _update(R, order, x, at, place, price, possible, required, Q, paths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Update the paths of the variables that x passed when it moved from position `at` to `place` of `order`."""
    before = np.arange(len(R)) >= len(order)
    for i in range(max(at, place) + 1):
        j = order[i]
        if j == x:
            stale = True
        elif i < min(at, place):
            stale = False
        elif place < at:
            stale = required[x, j] or (possible[x, j] and _would_grow(paths, j, R, j, x))
        else:
            stale = required[x, j] or _has_grown(paths, j, x)
        if stale:
            _store(paths, j, R, j, before, price, possible, required, Q)
        before[j] = True


@njit(cache=True)
def _store(paths, row, R, j, before, price, possible, required, Q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Select parents of j among `before`, store how they were grown in a row of `paths`, and return their cost."""
    cost, candidates, chosen, _, forced, residual = _select(R, j, before, price, possible, required, Q)
    paths.cost[row], paths.size[row] = cost, len(chosen) if len(chosen) <= MAX_PATH else TOO_LONG
    for b in range(paths.size[row]):
        covariance = R[candidates[chosen[b]], j]
        for a in range(b):
            covariance -= Q[a, chosen[b]] * paths.effect[row, a]
        for a in range(b + 1):
            paths.factor[row, b * (b + 1) // 2 + a] = Q[a, chosen[b]]
        effect = covariance / Q[b, chosen[b]]
        paths.grown[row, b], paths.effect[row, b] = candidates[chosen[b]], effect
        paths.least[row, b] = np.inf if b < forced else effect * effect * (1.0 - PATH_MARGIN)
    if len(chosen) <= MAX_PATH:
        paths.least[row, len(chosen)] = (1.0 - math.exp(-price)) * residual * (1.0 - PATH_MARGIN)
    return cost


@njit(cache=True)
def _has_grown(paths, row, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether x was added while growing the path of a row; True if the path is too long to be stored."""
    for a in range(paths.size[row]):
        if paths.grown[row, a] == x:
            return True
    return paths.size[row] == TOO_LONG


@njit(cache=True)
def _would_grow(paths, row, R, j, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether x, as one more candidate, would be added to the path of j in a row; True if rounding leaves this open.

    It is also True if the path is too long to be stored. The check takes O(p²) for p grown parents and any number of
    candidates, because the path does not change before x is added.
    """
    size = paths.size[row]
    if size == TOO_LONG:
        return True
    variance, covariance, of_x = 1.0, R[x, j], np.empty(MAX_PATH)
    for b in range(size + 1):
        if variance <= COLLINEARITY_TOLERANCE * (1.0 - PATH_MARGIN):
            return False
        if covariance * covariance > paths.least[row, b] * variance:
            return True
        if b < size:
            given, column = R[x, paths.grown[row, b]], b * (b + 1) // 2
            for a in range(b):
                given -= of_x[a] * paths.factor[row, column + a]
            of_x[b] = given / paths.factor[row, column + b]
            covariance -= of_x[b] * paths.effect[row, b]
            variance -= of_x[b] * of_x[b]
    return False


@njit(cache=True)
def _graph(R, order, price, possible, required):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The DAG `[m, d]` of `order`, and its total: −2 times its score per row."""
    m, d = len(R), len(order)
    Q, dag, before, total = np.empty((m, m)), np.zeros((m, d), np.bool_), np.arange(m) >= d, 0.0
    for j in order:
        cost, candidates, _, chosen, _, _ = _select(R, j, before, price, possible, required, Q)
        total += cost
        for p in candidates[chosen]:
            dag[p, j] = True
        before[j] = True
    return dag, total


@njit(cache=True)
def _select(R, j, before, price, possible, required, Q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Select parents of j among `before`.

    Returns the cost of the parents; the candidates; the positions in `candidates` of the grown parents; those of the
    parents left after shrinking; the number of forced (required) parents; and the residual variance given the grown
    parents.
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
    left, grown = _grow(R, j, candidates, forced, 1.0 - math.exp(-price), Q)
    residual, chosen = left, grown
    if len(grown) > max(forced, 1):
        residual, chosen = _shrink(R, j, candidates, grown, forced, left, math.exp(price) - 1.0, Q)
    cost = math.log(residual) + price * len(chosen) + MISPLACED_PARENT_COST * late
    return cost, candidates, grown, chosen, forced, left


@njit(cache=True)
def _grow(R, j, candidates, forced, least, Q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The residual variance of j, and the positions of its parents in `candidates`.

    The first `forced` candidates are parents. Then the best candidate is added as long as it explains more than the
    share `least` of the residual variance. Row m of Q is the covariance of the m-th parent with all candidates given
    the parents before it, divided by the parent's residual standard deviation.
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
    """The residual variance of j, and the parents that stay.

    The weakest parent is removed as long as it explains less than `least` times the residual variance.
    """
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
