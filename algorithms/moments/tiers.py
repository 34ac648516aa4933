"""Linear models of time series from the second moments of their windows (ours): `secure-linear` on series.

A window (x_t, x_{t−1}, ..., x_{t−L}) is one row of a table with two tiers of columns: the lagged columns, `S[d:]`,
precede the present ones, and edges among lagged columns are not learned. So the searches for tables without time are
used, but they order only the d present variables. Each present variable selects its parents among all lagged columns
and the present variables before it in the order. A variable's own past acts as an instrument: with errors of any
variances it directs nearly every edge within a time step.

- Equal error variances (`best_lagged_fit`): the search starts from the order of least variance given all lags and the
  earlier variables (Chen, Drton, Wang 2019), selects parents forward and backward, and reverses weak edges. With few
  windows, it also moves single variables to any other place in the order.
- Any error variances: the search of `score/gaussian_order.py` over the present variables.
- The lag order: `information_criteria` in `pooled.py`.
- Few windows (`ridge_strengths`): if there are no more windows than columns, edges cannot be selected reliably, but the
  effects of a ridge regression rank the pairs.

All of this is computed at the server from one masked sum. The cost is O(m³) for m = (L + 1)·d columns, and O(d·m·p²)
for selecting the parents under one order, with p parents.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.dag import topological_order
from ..score.gaussian_order import gaussian_boss, parents_in_order
from ..score.order_starts import BestOrder
from ..score.settings import OrderSettings
from ..statistics.moments import regression_weights, unit_diagonal
from .edge_reversals import order_after_reversals
from .elimination import MIN_CANDIDATE_T, eliminate_among, squared_t_values
from .equal_variance import (
    MAX_PASSES,
    MAX_SPREAD,
    MIN_ROWS_PER_VARIABLE,
    MIN_SCORE_GAIN,
    LinearFit,
    equal_variance,
    has_weak_edges,
    is_exact,
    respect_precedence,
    score_fit,
    variance_spread,
)
from .pooled import lagged_price, order_given_past

Order = NDArray[np.int64]

MAX_PARENTS = 12
"""maximum number of parents of a variable in the search of `equal_variance` for an order"""
MAX_THOROUGH = 30
"""with more variables, pairs are screened, and the searches with few windows are shortened"""
MAX_MOVED, FEW_ROWS_PER_COLUMN = 12, 10
"""maximum numbers of variables, and of windows per column, for which `_after_moves` is used"""
MAX_REVERSALS = 3
"""maximum number of rounds of reversals of weak edges"""


def price_of_parent(rows: int, columns: int) -> float:
    """The penalty on twice the log-likelihood for a parent among `columns` candidates, most of them lagged.

    It is the penalty of BIC, plus the larger of this penalty and the extra term of EBIC (Chen & Chen 2008) for a
    quarter of the candidates.
    """
    return math.log(rows) + max(math.log(rows), 2 * math.log(columns / 4))


def best_lagged_fit(S: FloatArray, rows: int, prior: Prior) -> LinearFit:
    """The best fit with equal error variances to second moments `S` `[m, m]` of `rows` windows; weights are `[m, d]`.

    `prior` is the background knowledge of the d variables. With many windows, the first order is that of least variance
    given all lags and all earlier variables. It suffices if its residual variances are equal up to sampling error, or
    far from equal. If they are neither, or if there are few windows, an order found with at most `MAX_PARENTS` parents
    of each variable is tried. The best fit is then improved by reversals of edges; with few variables and windows, also
    by moves of single variables in the order.
    """
    m, d = len(S), len(prior.possible)
    price, knowledge = price_of_parent(rows, m), prior.of_windows(m)

    def fit(order: Order) -> LinearFit:
        constrained = respect_precedence(order, prior.precedence)
        return score_fit(S, weights_in_order(S, constrained, rows, price, knowledge), rows, price)

    fits = [fit(order_given_past(S, d))] if rows > MIN_ROWS_PER_VARIABLE * m else []
    if not fits or not (is_exact(fits[0].variances, rows) or variance_spread(fits[0].variances) > 2 * MAX_SPREAD):
        passes = 0 if fits else MAX_PASSES if d <= MAX_THOROUGH else 1
        fits.append(fit(equal_variance(S, lagged_price(m, rows), MAX_PARENTS, passes, d).order))
    best = _after_reversals(S, max(fits, key=lambda one: one.score), rows, price, fit)
    return _after_moves(best, fit) if d <= MAX_MOVED and rows <= FEW_ROWS_PER_COLUMN * m else best


ROUNDING = 1e-14
"""minimum residual share of a variance, because the past may explain a smooth series up to rounding errors"""


def weights_in_order(S: FloatArray, order: Order, rows: int, price: float, prior: Prior) -> FloatArray:
    """The weights `[m, d]` of the best parents found for each variable under one `order` of the variables.

    Forward selection misses two parents if only both together explain the child. So with many windows, backward
    elimination is also tried for each variable. It starts from the parents of the forward selection and from all
    earlier columns whose t-value, in the regression on all earlier columns, is at least `MIN_CANDIDATE_T`. The
    selection with the lower cost is used.
    """
    m, d = len(S), len(order)
    grown = parents_in_order(S, order, rows, price, prior)
    weights = regression_weights(S, grown)
    if rows <= MIN_ROWS_PER_VARIABLE * m:
        return weights
    squares = squared_t_values(S, order, rows)
    candidates = (grown | (squares >= MIN_CANDIDATE_T**2)) & prior.possible[:, :d] | prior.required[:, :d]
    eliminated = eliminate_among(S, candidates, math.expm1(price / rows), prior.required)
    for j in range(d):
        costs = [
            rows * math.log(max(S[j, j] - w[:, j] @ S[:, j], ROUNDING * S[j, j])) + price * np.count_nonzero(w[:, j])
            for w in (weights, eliminated)
        ]
        if costs[1] < costs[0]:
            weights[:, j] = eliminated[:, j]
    return weights


def _after_reversals(
    S: FloatArray, best: LinearFit, rows: int, price: float, fit: Callable[[Order], LinearFit]
) -> LinearFit:
    """The fit `best` after reversals of edges, as long as there are weak edges and the score improves."""
    for _ in range(MAX_REVERSALS):
        if not has_weak_edges(best, rows):
            break
        better = fit(order_after_reversals(S, best.weights != 0, price / rows * float(best.variances.mean())))
        if better.score <= best.score + MIN_SCORE_GAIN:
            break
        best = better
    return best


def _after_moves(best: LinearFit, fit: Callable[[Order], LinearFit]) -> LinearFit:
    """The fit `best` after moves of single variables in the order: each time the best move, until none improves it.

    With few windows, the first order can have errors that reversals of weak edges do not correct.
    """
    d = best.weights.shape[1]
    order = np.array(topological_order(best.weights[:d] != 0), np.int64)
    while True:
        moves = [
            np.insert(np.delete(order, place), to, order[place]) for place in range(d) for to in range(d) if to != place
        ]
        found = max(((fit(one), at) for at, one in enumerate(moves)), key=lambda one: one[0].score, default=(best, 0))
        if found[0].score <= best.score + MIN_SCORE_GAIN:
            return best
        best, order = found[0], moves[found[1]]


SCREEN_T = 1.5
"""minimum t-value of a pair, in one of two regressions, for the search to consider the pair"""


def _screened(S: FloatArray, rows: int, knowledge: Prior, d: int) -> Prior:
    """The `knowledge` without pairs that are nearly independent given all other columns.

    Unless effects cancel, a parent of j depends on j given all other columns. A lagged parent also depends on j given
    the other lagged columns. Only a search of many variables in many windows is screened, to make it faster. The
    parents are then selected among all columns again (`weights_in_order`).
    """
    m = len(S)
    if d <= MAX_THOROUGH or rows <= MIN_ROWS_PER_VARIABLE * m:
        return knowledge
    K = np.linalg.inv(S)
    shares = K**2 / np.outer(np.diag(K), np.diag(K))
    likely = rows * shares > SCREEN_T**2 * (1 - np.minimum(shares, 1.0))
    past = np.linalg.inv(S[d:, d:])
    effects = past @ S[d:, :d]
    variances = np.diag(S)[:d] - np.einsum("ij,ij->j", effects, S[d:, :d])
    likely[d:, :d] |= rows * effects**2 > SCREEN_T**2 * np.outer(np.diag(past), variances)
    return replace(knowledge, possible=knowledge.possible & likely)


def free_lagged_fit(
    S: FloatArray, rows: int, settings: OrderSettings, prior: Prior, min_share: float = 0.0, ends: float = math.inf
) -> BestOrder:
    """The DAG `[m, m]` of least BIC for second moments `S` `[m, m]` of windows, with an error variance per variable.

    `prior` is the background knowledge of the d variables. The lagged columns have no parents. An edge must explain
    `min_share` of a residual variance. The search ends at the time `ends` of `time.monotonic` at the latest.
    """
    m, d = len(S), len(prior.possible)
    price, knowledge = max(price_of_parent(rows, m), rows * math.log1p(min_share)), prior.of_windows(m)
    if d > MAX_THOROUGH and has_few_windows(rows, m):
        settings = replace(settings, starts=1, patience=1)
    found = gaussian_boss(S, rows, price, settings, _screened(S, rows, knowledge, d), d, ends)
    order = np.array(topological_order(found.dag[:d]), np.int64)
    weights = weights_in_order(S, order, rows, price, knowledge)
    dag = np.zeros((m, m), np.bool_)
    dag[:, :d] = weights != 0
    score = -0.5 * float(rows * np.log(score_fit(S, weights, rows).variances).sum() + price * dag.sum())
    return replace(found, dag=dag, score=score)


RIDGE = 10.0
"""the ridge penalty of `ridge_strengths`, in units of the variables' variances"""


def has_few_windows(rows: int, columns: int) -> bool:
    """Whether `rows` windows are too few to select edges among `columns` columns."""
    return rows <= MIN_ROWS_PER_VARIABLE * columns


def ridge_strengths(S: FloatArray, d: int, ridge: float = RIDGE) -> FloatArray:
    """The strengths of all lagged pairs, `[lags, d, d]`, from second moments `S` `[m, m]` of few windows.

    The strength of a pair is its absolute effect (`ridge_effects`) times the root mean square effect of the cause on
    other variables, because in networks with hubs, such as gene networks, few causes have most of the effects.
    """
    strengths = np.abs(ridge_effects(unit_diagonal(S), d, ridge))
    others = np.where(np.eye(d, dtype=bool), 0.0, strengths)
    return np.asarray(strengths * np.sqrt((others**2).mean(axis=2, keepdims=True)))


def ridge_effects(C: FloatArray, d: int, ridge: float) -> FloatArray:
    """(1 + r)(C_LL + rI)⁻¹C_LX, `[lags, d, d]`, for correlations `C` `[m, m]` of present X and lagged L.

    With r = 0 it is least squares, with a large r the correlations themselves (Hoerl, Kennard 1970). The factor 1 + r
    removes the shrinkage.
    """
    past = C[d:, d:] + ridge * np.eye(len(C) - d)
    effects = (1 + ridge) * np.linalg.lstsq(past, C[d:, :d], rcond=None)[0]
    return np.asarray(effects.reshape(-1, d, d), dtype=np.float64)
