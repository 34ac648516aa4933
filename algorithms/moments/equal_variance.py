"""Linear SEMs with equal error variances from second moments, and whether data support them (Chen, Drton, Wang 2019).

With equal error variances, a variable whose parents are all known has the smallest possible conditional variance. So an
order can be read off from the top: first the variable of least variance, then the one of least variance given the
first, and so on. There are two ways to the parents of each variable:

- Few rows (`equal_variance`): conditioning on all earlier variables would accumulate the noise in S, so each variable
  is regressed on few of them. Parents are added while they explain more than `price`, and removed again when they do
  not (forward, then backward selection). Moves of single variables improve the order as long as they lower
  Σ_j (v_j + price · number of parents of j), with v_j the residual variance. A selection of p parents among k
  candidates costs O(k·p²), so the order costs O(d³p²), and a pass of moves the same.
- Many rows (`backward_elimination`): each variable is regressed on all that come before it in an order, and parents are
  removed one by one, the one that explains least first, while it is not worth its price. The number of parents is not
  limited, so this finds dense graphs; but regressions on everything need many more rows than variables.

`best_equal_variance_fit` compares several orders (ours). One is read from the top given all earlier variables
(`statistics/count_tables.py`): the best if rows are many. The others select few parents on the way, first those of
large effects, then those that the information criterion pays for once the error variance is known: the best if rows are
few. Under each order parents are eliminated from all earlier variables, with the price of the Bayesian information
criterion for a parent, ln n, plus 2 ln d for the number of candidates (Chen & Chen 2008). The likelihood decides.

Equal error variances or not (ours): data with equal error variances have one DAG; without that assumption, second
moments determine a DAG only up to its Markov equivalence class. So the DAG is claimed only if the data support it, in
one of two ways:

- its fit with *one* variance scores better, penalties included, than the class with a variance for each variable;
- or its residual variances are so nearly equal that sampling can explain the rest: their spread D = ln of the mean −
  mean of the ln is below `NEAR`, and below `OF_MARGINAL` of the spread M of the variables' own variances. Standardised
  columns have M = 0 and never pass this way.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..errors import BadInput
from ..score.order_starts import Found
from ..statistics.count_tables import top_down
from ..statistics.lagged import given_the_past

# A candidate is collinear if the chosen parents leave less than this share of its variance.
COLLINEAR = 1e-3


@dataclass(frozen=True)
class Ordered:
    """Weights `[m, d]` and the order they respect, `[d]`: first to last."""

    weights: FloatArray
    order: NDArray[np.int64]


def equal_variance(
    S: FloatArray, price: float | FloatArray, most_parents: int, passes: int, d: int | None = None
) -> Ordered:
    """The weights and the order of the variables for second moments `S` `[m, m]`, positive definite.

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
    """The weights `[m, d]` of what is selected for each of the d variables among `parents` `[d, d]` and lags.

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
    """Parents of j among `allowed`, each the one that explains most above its price, while there is one.

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
    """The variance of j left by its parents among `allowed`, and those: none explains less than its price."""
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
    """The order in which, each time, the variable of least variance given those before comes next."""
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
    """The best new place for the variable at `place`, and by how much the total score then changes.

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
    """`order` after moving each variable in turn to its best place, until none moves or `passes` are over."""
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


# A variable is determined by the earlier ones if they leave less than this share of its variance.
MIN_RESIDUAL_SHARE = 1e-9


def respect_precedence(order: NDArray[np.int64], precedes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """`order` with each variable moved behind those that `precedes` `[d, d]` says come before it."""
    left, found = list(order), list[int]()
    while left:
        found.append(next(v for v in left if not precedes[left, v].any()))
        left.remove(found[-1])
    return np.array(found, np.int64)


def backward_elimination(
    S: FloatArray, order: NDArray[np.int64], rows: int, price: float, prior: Prior | None = None
) -> FloatArray:
    """The weights `[d, d]` of the parents that stay of all those before a variable in `order`.

    A parent goes while rows·ln(1 + t/s) < `price`, where t is the variance that it explains beyond the other parents
    and s what all of them leave. Impossible parents go first, whatever they explain, and required ones never. With no
    more rows than variables, those from place `rows` on are determined by the earlier ones, whatever the data are: as
    parents they are taken to have as much variance again of their own.
    """
    known = prior or no_prior(len(S))
    least = float(np.expm1(price / rows))
    return np.asarray(_eliminated(np.array(S), order, rows, least, known.possible, known.required))


@njit(cache=True)
def _eliminated(S, order, rows, least, possible, required):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The weights; a parent stays if it explains at least the share `least` of what is left."""
    d = len(S)
    weights, K = np.zeros((d, d)), np.empty((d, d))
    for place in range(d):
        j = order[place]
        before = order[:place]
        b = np.zeros(place)
        for a in range(place):
            for c in range(place):
                b[a] += K[a, c] * S[before[c], j]
        left = S[j, j]
        for a in range(place):
            left -= b[a] * S[before[a], j]
        left = max(left, MIN_RESIDUAL_SHARE * S[j, j])
        can, must = possible[before, j], required[before, j]
        _drop(K[:place, :place].copy(), b.copy(), left, before, least, can, must, weights[:, j])
        _extend(K, b, left if place < rows else left + S[j, j], place)
    return weights


@njit(cache=True)
def _drop(K, b, left, before, least, can, must, weights):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Take parents out of the regression with weights `b` and inverse moments K, the least first; note what stays.

    Those that cannot be parents go first, those that must be stay.
    """
    k = len(b)
    stays = np.ones(k, np.bool_)
    while True:
        weakest, explains, out = -1, np.inf, False
        for a in range(k):
            worth = b[a] * b[a] / K[a, a]
            if stays[a] and not must[a] and (not can[a], -worth) > (out, -explains):
                weakest, explains, out = a, worth, not can[a]
        if weakest < 0 or (not out and explains >= least * left):
            break
        stays[weakest] = False
        left += explains
        for a in range(k):
            if stays[a]:
                b[a] -= K[a, weakest] * b[weakest] / K[weakest, weakest]
        for a in range(k):
            if stays[a]:
                share = K[a, weakest] / K[weakest, weakest]
                for c in range(k):
                    if stays[c]:
                        K[a, c] -= share * K[weakest, c]
    for a in range(k):
        if stays[a]:
            weights[before[a]] = b[a]


@njit(cache=True)
def _extend(K, b, left, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make K the inverse moments of one variable more, whose regression on the others has weights b and leaves left."""
    for a in range(place):
        for c in range(place):
            K[a, c] += b[a] * b[c] / left
    for a in range(place):
        K[a, place] = K[place, a] = -b[a] / left
    K[place, place] = 1.0 / left


ENOUGH = 2
"""rows per variable above which each variable can be regressed on all others"""
FEW = 0.05
"""least share of the least variance that a parent must explain while searching the first order"""
PASSES = 10
"""most passes of moves that improve an order"""
REFINEMENTS = 3
"""how often the price of a parent follows the error variance found"""
EQUAL = 1e-9
"""a better score must exceed the best one by this much"""
AS_EXPECTED = 4.0
"""equal variances, each estimated from n rows, have a spread of about 1/n: with less than so many times that, no other
order is sought"""
DETERMINED = 1e-12
"""smallest share of the variance that a residual variance may have: less is rounding"""


@dataclass(frozen=True)
class LinearFit:
    """Weights `[d, d]`, the variance that they leave of each variable `[d]`, and how well they fit."""

    weights: FloatArray
    variances: FloatArray
    score: float
    """log-likelihood less its price, of the whole table: comparable between fits to the same moments"""

    @property
    def edges(self) -> int:
        """The number of edges."""
        return int(np.count_nonzero(self.weights))


def best_equal_variance_fit(S: FloatArray, rows: int, prior: Prior | None = None) -> LinearFit:
    """The best of the fits with equal error variances to second moments `S` `[d, d]` of so many rows."""
    d = len(S)
    known = prior or no_prior(d)
    price = math.log(rows) + 2 * math.log(d)

    def fit(order: NDArray[np.int64]) -> LinearFit:
        return _fitted(S, backward_elimination(S, respect_precedence(order, known.precedes), rows, price, known), rows)

    fits = [fit(np.argsort(top_down(S, known.precedes)[0]))] if rows > ENOUGH * d else []
    if fits and variance_spread(fits[0].variances) < AS_EXPECTED / rows:
        return fits[0]
    fits.append(fit(equal_variance(S, max(FEW, 3 * math.log(d) / rows), d - 1, PASSES).order))
    best = max(fits, key=lambda one: one.score)
    for _ in range(REFINEMENTS):
        # What a parent must explain, where all errors have the variance that the best fit leaves on average.
        least = price / rows * float(best.variances.mean()) / float(np.diag(S).min())
        found = equal_variance(S, least, d - 1, PASSES)
        better = fit(found.order) if known.anything else _fitted(S, found.weights, rows)
        if better.score <= best.score + EQUAL:
            break
        best = better
    return best


def variance_spread(variances: FloatArray) -> float:
    """Ln of the mean of `variances` less the mean of their ln: 0 if all are equal, above 0 if not."""
    if (variances <= 0).any():
        raise BadInput("a column without variance has no place in a choice by variances")
    return float(np.log(variances.mean()) - np.log(variances).mean())


def _fitted(S: FloatArray, weights: FloatArray, rows: int) -> LinearFit:
    d, gap = len(S), np.eye(len(S)) - weights
    variances = np.maximum(np.einsum("ij,ik,kj->j", gap, S, gap, optimize=True), DETERMINED * np.diag(S))
    edges = np.count_nonzero(weights)
    likelihood = -0.5 * rows * d * (math.log(2 * math.pi * float(variances.mean())) + 1)
    price = 0.5 * math.log(rows) * (edges + 1) + edges * math.log(d)
    return LinearFit(weights, variances, likelihood - price)


NEAR, OF_MARGINAL = 0.05, 0.1


@dataclass(frozen=True)
class VarianceEvidence:
    """The evidence for and against equal error variances, and the choice."""

    equal: bool
    spread: float
    """D: the spread of the error variances of the fit with equal variances, 0 if they are equal"""
    marginal: float
    """M: the same of the variables' own variances"""
    gain: float
    """by how much the fit with equal variances scores better than that without; NaN where the second was not needed"""


def variances_near_equal(S: FloatArray, fit: LinearFit) -> VarianceEvidence:
    """The evidence from one fit: how nearly equal the error variances of `fit` are."""
    spread, marginal = variance_spread(fit.variances), variance_spread(np.diag(S))
    return VarianceEvidence(spread < NEAR and spread < OF_MARGINAL * marginal, spread, marginal, float("nan"))


def variance_evidence(near: VarianceEvidence, fit: LinearFit, free: Found, rows: int) -> VarianceEvidence:
    """The evidence with that of the second fit, whose variances are `free`."""
    d = len(fit.variances)
    likelihood_free = free.score - 0.5 * rows * d * (np.log(2 * np.pi) + 1) - 0.5 * d * np.log(rows)
    gain = fit.score - float(likelihood_free)
    return VarianceEvidence(near.equal or gain > 0, near.spread, near.marginal, gain)
