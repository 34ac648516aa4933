"""Linear SEMs with equal error variances from second moments, and whether data support them (Chen, Drton, Wang 2019).

With equal error variances, of the variables that are not in the order yet, those whose parents are all in the order
have the smallest variance given the order. So the order is found from the top down: first the variable with the
smallest variance, then the variable with the smallest variance given the first, and so on. There are two ways to select
the parents of each variable:

- Few rows (`equal_variance`): conditioning on all earlier variables would accumulate the noise of the second moments,
  so each variable is regressed on few of them. Parents are added while each explains a variance of more than c, and
  removed again when they do not (forward, then backward selection). c is the share `min_share` of the least variance.
  Moves of single variables improve the order as long as they lower Σ_j (v_j + c · number of parents of j), with v_j the
  residual variance. A selection of p parents among k candidates costs O(k·p²), so finding the order costs O(d³p²), as
  does a pass of moves.
- Many rows (`elimination.py`): each variable is regressed on all variables before it in an order. While a parent adds
  less than `price` to twice the log-likelihood, the parent that adds least is removed. The number of parents is not
  limited, so dense graphs are found, too. But full regressions need many more rows than variables.

`best_equal_variance_fit` compares several fits (ours). For many rows, the first one has the top-down order given all
earlier variables (`statistics/moments.py`). The next order is found with few parents in each step, those with large
effects. Under these two orders, backward elimination starts from all earlier variables. The price of a parent is ln n,
as in the Bayesian information criterion, plus 2 ln d for the number of candidates (Chen & Chen 2008). Then the search
with few parents is repeated with the `min_share` of the same price at the estimated error variance, and its parents are
used directly, or after backward elimination with background knowledge. The fit with the greatest score is chosen. If
the residual variances of the first fit are equal up to sampling error, the model is exact, and only weak edges may have
the wrong direction. Then edges are compared with their reversals (`edge_reversals.py`) instead of searching for orders.

Test of the assumption (ours): with equal error variances the second moments determine one DAG; without this assumption,
they determine only its Markov equivalence class. So the result is a DAG only if the data support the assumption in one
of two ways:

- its fit with *one* variance scores better, penalties included, than the class with a variance for each variable;
- or its residual variances are equal up to sampling error: their spread D = ln of the mean − mean of the ln is below
  `MAX_SPREAD`, and below `MAX_SPREAD_RATIO` of the spread M of the variables' own variances. Standardised columns have
  M = 0 and never pass this test. If D is larger than by chance, the DAG must also fit as well as the class once each
  variable has a variance: nearly equal variances can order variables wrongly, and a wrong order needs more edges.

In both cases no more dependence may be left than by chance (`model_fit.fits_badly`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.dag import topological_order
from ..score.order_starts import BestOrder
from ..statistics.lagged import moments_given_past
from ..statistics.moments import top_down_order
from .edge_reversals import order_after_reversals
from .elimination import MAX_UNSCREENED, Eliminated, backward_elimination
from .parent_selection import can_enter, new_paths, select_parents, select_path, was_added


@dataclass(frozen=True)
class OrderedWeights:
    """Weights `[m, d]` and the order of the variables, `[d]`: first to last."""

    weights: FloatArray
    order: NDArray[np.int64]


def equal_variance(
    S: FloatArray,
    min_share: float | FloatArray,
    max_parents: int,
    passes: int,
    d: int | None = None,
    noise: float = 0.0,
) -> OrderedWeights:
    """The weights and the order of the variables for second moments `S` `[m, m]`, positive definite.

    A parent must explain the share `min_share` of the least variance: one number, or one number per candidate `[m]`.
    `passes` limits the number of passes of moves. The first `d` variables, by default all, are ordered. The others are
    lagged variables of time series, which precede them. With lagged variables, the least variance is the least residual
    variance given the lagged variables. A parent must also explain the share `noise` of the residual variance.
    """
    d = len(S) if d is None else d
    most = min(max_parents, len(S) - 1)
    lagged = np.arange(len(S)) >= d
    shares = np.broadcast_to(min_share, len(S)).astype(np.float64)
    min_explained = shares * float(np.diag(S)[:d].min())
    if d < len(S):
        min_explained = shares * min(select_parents(S, j, lagged, min_explained, most)[0] for j in range(d))
    order = _top_down(S, lagged, min_explained, most, noise)
    order = _improve_order(S, lagged, order, min_explained, most, noise, passes)
    weights = np.zeros((len(S), d))
    before = lagged.copy()
    for j in order:
        _, parents = select_parents(S, j, before, min_explained, most, noise)
        if len(parents):
            weights[parents, j] = np.linalg.solve(S[np.ix_(parents, parents)], S[parents, j])
        before[j] = True
    return OrderedWeights(weights, order)


def select_weights(S: FloatArray, parents: NDArray[np.bool_], min_share: float, max_parents: int) -> FloatArray:
    """The weights `[m, d]` of the parents that each of the d variables selects among its `parents` `[d, d]` and lags.

    `S` `[m, m]` are the second moments. A parent must explain the share `min_share` of the least residual variance
    given the past.
    """
    d = len(parents)
    most, lagged = min(max_parents, len(S) - 1), np.ones(len(S) - d, dtype=np.bool_)
    min_explained = np.full(len(S), min_share * float(np.diag(moments_given_past(S, d)).min()))
    weights = np.zeros((len(S), d))
    for j in range(d):
        _, chosen = select_parents(S, j, np.concatenate([parents[:, j], lagged]), min_explained, most)
        if len(chosen):
            weights[chosen, j] = np.linalg.solve(S[np.ix_(chosen, chosen)], S[chosen, j])
    return weights


@njit(cache=True)
def _top_down(S, lagged, min_explained, most, noise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The order in which the next variable always has the least variance given the earlier ones."""
    d = len(lagged) - lagged.sum()
    order, ordered, paths = np.empty(d, np.int64), lagged.copy(), new_paths(d)
    variances = paths[-1]
    for j in range(d):
        select_path(S, j, ordered, min_explained, most, noise, paths, j)
    for place in range(d):
        best = int(np.argmin(np.where(ordered[:d], np.inf, variances)))
        order[place] = best
        ordered[best] = True
        for j in range(d):
            if not ordered[j] and can_enter(S, j, best, min_explained, most, noise, paths, j):
                select_path(S, j, ordered, min_explained, most, noise, paths, j)
    return order


@njit(cache=True)
def _changes(S, mover, neighbour, before, step, min_explained, most, noise, paths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """How the scores of two variables change if `mover` passes its `neighbour`, by `step` = −1 or 1.

    `before` are the variables before both; it is updated for the next step. The last two slots of `paths` are for the
    selection of the mover, which is updated, and for that of the neighbour.
    """
    of_mover, of_neighbour, scores = len(paths[0]) - 2, len(paths[0]) - 1, paths[-2]
    first = step > 0
    if first:
        mover_changes = can_enter(S, mover, neighbour, min_explained, most, noise, paths, of_mover)
        neighbour_changes = was_added(paths, neighbour, mover)
    else:
        before[neighbour] = False
        mover_changes = was_added(paths, of_mover, neighbour)
        neighbour_changes = can_enter(S, neighbour, mover, min_explained, most, noise, paths, neighbour)
    change = -scores[of_mover]
    if neighbour_changes:
        before[mover] = not first
        select_path(S, neighbour, before, min_explained, most, noise, paths, of_neighbour)
        change += scores[of_neighbour] - scores[neighbour]
        before[mover] = False
    before[neighbour] = first
    if mover_changes:
        select_path(S, mover, before, min_explained, most, noise, paths, of_mover)
    return change + scores[of_mover]


@njit(cache=True)
def _best_move(S, lagged, order, place, min_explained, most, noise, paths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The best position for the variable at `place`; `paths` has the selections of all variables in the present order.

    The variable moves away from its position one step at a time. Each step changes only its own possible parents and
    those of the neighbour that it passes.
    """
    d, mover = len(order), order[place]
    best, to = 0.0, place
    for step in (-1, 1):
        before = lagged.copy()
        before[order[:place]] = True
        select_path(S, mover, before, min_explained, most, noise, paths, len(paths[0]) - 2)
        change = 0.0
        position = place + step
        while 0 <= position < d:
            change += _changes(S, mover, order[position], before, step, min_explained, most, noise, paths)
            if change < best - 1e-9 * S[mover, mover]:
                best, to = change, position
            position += step
    return to


@njit(cache=True)
def _improve_order(S, lagged, order, min_explained, most, noise, passes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`order` after at most `passes` passes that move each variable to its best position, until none moves."""
    d = len(order)
    paths, first, last = new_paths(d + 2), 0, d - 1
    for _ in range(passes):
        moved = False
        for mover in range(d):
            before = lagged.copy()
            before[order[:first]] = True
            for j in order[first : last + 1]:
                select_path(S, j, before, min_explained, most, noise, paths, j)
                before[j] = True
            place = int(np.argmax(order == mover))
            to = _best_move(S, lagged, order, place, min_explained, most, noise, paths)
            first, last = (min(place, to), max(place, to)) if to != place else (d, -1)
            if to != place:
                moved = True
                others = np.concatenate((order[:place], order[place + 1 :]))
                order = np.concatenate((others[:to], np.array([mover]), others[to:]))
        if not moved:
            break
    return order


def respect_precedence(order: NDArray[np.int64], precedes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """`order` with each variable moved behind all variables that precede it by `precedes` `[d, d]`."""
    if not precedes.any():
        return order
    return np.array(topological_order(precedes, order), np.int64)


MIN_ROWS_PER_VARIABLE = 2
"""with more rows per variable than this, each variable may be regressed on all others"""
MIN_EXPLAINED_SHARE = 0.05
"""smallest share of the least variance that a parent must explain in the search for the first order"""
MAX_NOISE = 0.025
"""with few rows, maximum share of a residual variance that a parent must explain in a search for orders"""
MAX_PASSES = 10
"""largest number of passes of moves that improve an order"""
MAX_REFINEMENTS = 3
"""largest number of repetitions of a search, each with the error variance or the graph of the best fit so far"""
MIN_SCORE_GAIN = 1e-9
"""amount by which a new score must exceed the best score so far"""
EXPECTED_SPREAD_FACTOR = 4.0
"""if the spread of variances estimated from n rows is below this multiple of 1/n, the model counts as exact; 1/n is the
expected spread of equal variances. Measured spreads: .3 to 1.9 times 1/n with Gaussian errors, 2 to 6 with exponential
errors, and mostly more than 30 if the model does not hold, as for rounded numbers."""
WEAK_DEVIATIONS = 4.0
"""the order of two adjacent variables counts as certain if their variances differ by this number of standard errors"""
MIN_VARIANCE_SHARE = 1e-12
"""lower bound on a residual variance, as a share of the variance: smaller values are rounding errors"""


@dataclass(frozen=True)
class LinearFit:
    """Weights `[d, d]`, or `[m, d]` with lags, the variables' residual variances `[d]`, and the score of the fit."""

    weights: FloatArray
    variances: FloatArray
    score: float
    """penalised log-likelihood of the whole table: comparable between fits to the same moments"""

    @property
    def edges(self) -> int:
        """The number of edges."""
        return int(np.count_nonzero(self.weights))


def best_equal_variance_fit(
    S: FloatArray, rows: int, prior: Prior | None = None, rejects: Callable[[LinearFit], bool] = lambda fit: False
) -> LinearFit:
    """The best of the fits with equal error variances to second moments `S` `[d, d]` of this number of rows.

    The search for better orders costs far more than the first fit. If `rejects(first fit)` is true, the caller would
    not use a better fit either (`clearly_unequal`), so the first fit is returned without a search.
    """
    d = len(S)
    knowledge = prior or no_prior(d)
    price = math.log(rows) + 2 * math.log(d)
    known: Eliminated = {}

    def fit(order: NDArray[np.int64]) -> LinearFit:
        order = respect_precedence(order, knowledge.precedence)
        return score_fit(S, backward_elimination(S, order, rows, price, knowledge, known), rows)

    many_rows, least = rows > MIN_ROWS_PER_VARIABLE * d, max(MIN_EXPLAINED_SHARE, 3 * math.log(d) / rows)
    noise = 0.0 if many_rows else min(MAX_NOISE, 2 * math.log(d) / rows)

    eliminates = many_rows or d <= MAX_UNSCREENED  # otherwise, elimination from all earlier variables is too slow

    def search(share: float, passes: int, *, eliminates: bool) -> LinearFit:
        """The fit under the order of a search, after elimination or with the parents of the search."""
        found = equal_variance(S, share, d - 1, passes, noise=noise)
        return fit(found.order) if eliminates or knowledge.is_informative else score_fit(S, found.weights, rows)

    regressed = eliminates and rows > d
    order = np.argsort(top_down_order(S, knowledge.precedence)[0]) if regressed else np.arange(d)
    first = fit(order) if regressed else search(least, 0, eliminates=eliminates)
    if many_rows and is_exact(first.variances, rows):
        return _best_after_reversals(S, first, order, rows, price, fit)
    if rejects(first):
        return first
    best = search(least, MAX_PASSES, eliminates=eliminates)
    if many_rows and first.score >= best.score:  # with few rows, the first order only serves to reject
        best = first
    # `price` as a share of the least variance, if all errors have the mean residual variance of the best fit.
    unit = price / rows / float(np.diag(S).min())
    return _refined(best, lambda one: search(unit * float(one.variances.mean()), MAX_PASSES, eliminates=False))


def _refined(best: LinearFit, search: Callable[[LinearFit], LinearFit]) -> LinearFit:
    """The fit after searches that each start from the `best` fit so far, until none is better."""
    for _ in range(MAX_REFINEMENTS):
        better = search(best)
        if better.score <= best.score + MIN_SCORE_GAIN:
            break
        best = better
    return best


def _best_after_reversals(
    S: FloatArray,
    best: LinearFit,
    order: NDArray[np.int64],
    rows: int,
    price: float,
    fit: Callable[[NDArray[np.int64]], LinearFit],
) -> LinearFit:
    """The fit after reversals of edges, if any edge is weak.

    `best` is the fit under `order`, and `fit` fits parents under an order.
    """
    for _ in range(MAX_REFINEMENTS):
        if not has_weak_edges(best, rows):
            break
        order = order_after_reversals(S, best.weights != 0, price / rows * float(best.variances.mean()), order)
        better = fit(order)
        if better.score <= best.score + MIN_SCORE_GAIN:
            break
        best = better
    return best


def has_weak_edges(fit: LinearFit, rows: int) -> bool:
    """Whether sampling error may have reversed an edge i → j.

    The weight w of the edge makes the compared variances of i and j differ by about w², in units of the error variance.
    """
    weights = fit.weights[fit.weights != 0]
    return bool((weights**2 < WEAK_DEVIATIONS * 2 / math.sqrt(rows)).any())


def is_exact(variances: FloatArray, rows: int) -> bool:
    """Whether residual `variances` `[d]` from this number of rows are equal up to sampling error."""
    return variance_spread(variances) < EXPECTED_SPREAD_FACTOR / rows


def variance_spread(variances: FloatArray) -> float:
    """Ln of the mean of `variances` minus the mean of their ln: 0 if all are equal, else positive."""
    if (variances <= 0).any():
        raise BadInput("a column without variance cannot be ordered by variances")
    return float(np.log(variances.mean()) - np.log(variances).mean())


def score_fit(S: FloatArray, weights: FloatArray, rows: int, price: float | None = None) -> LinearFit:
    """The residual variances and the score of these `weights` `[m, d]` for second moments `S` `[m, m]`.

    The last m − d columns of S are lags.
    `price` is the penalty on twice the log-likelihood for an edge, by default ln n + 2 ln m.
    """
    m, d = weights.shape
    residual_map = np.eye(m, d) - weights
    variances = np.maximum(
        np.einsum("ij,ik,kj->j", residual_map, S, residual_map, optimize=True), MIN_VARIANCE_SHARE * np.diag(S)[:d]
    )
    edges = np.count_nonzero(weights)
    likelihood = -0.5 * rows * d * (math.log(2 * math.pi * float(variances.mean())) + 1)
    price = math.log(rows) + 2 * math.log(m) if price is None else price
    return LinearFit(weights, variances, likelihood - 0.5 * (edges * price + math.log(rows)))


MAX_SPREAD, MAX_SPREAD_RATIO = 0.05, 0.1
MAX_CHANCE_SPREAD = 3.0
"""spread of residual variances, times the number of rows, that equal variances have by chance; its mean is 1"""
MAX_LOSS = 10.0
"""nats by which a DAG found with nearly equal variances may fit worse than the class, if each has a variance"""


@dataclass(frozen=True)
class VarianceEvidence:
    """The evidence for and against equal error variances, and the decision."""

    equal: bool
    spread: float
    """D: the spread of the residual variances of the fit with equal variances; 0 if they are equal"""
    marginal: float
    """M: the spread of the variables' own variances"""
    gain: float
    """score of the fit with equal variances minus that of the fit without; NaN if the fit without was not needed"""


def variances_near_equal(S: FloatArray, fit: LinearFit) -> VarianceEvidence:
    """The evidence from `fit`, a fit with equal variances, alone: the spread of its residual variances."""
    spread, marginal = variance_spread(fit.variances), variance_spread(np.diag(S)[: len(fit.variances)])
    return VarianceEvidence(
        spread < MAX_SPREAD and spread < MAX_SPREAD_RATIO * marginal, spread, marginal, float("nan")
    )


def loses_to_class(fit: LinearFit, free: BestOrder, rows: int, price: float) -> bool:
    """Whether the DAG of `fit` fits worse than the class `free` once both have a variance for each variable.

    `price` is the penalty on twice the log-likelihood for an edge. The true DAG is in the class. An order that nearly
    equal variances have got wrong needs further edges, and loses more than `MAX_LOSS`.
    """
    own = -0.5 * (rows * float(np.log(fit.variances).sum()) + price * fit.edges)
    return free.score - own > MAX_LOSS


def variance_evidence(near: VarianceEvidence, fit: LinearFit, free: BestOrder, rows: int) -> VarianceEvidence:
    """The evidence `near` of `fit`, updated with the second fit `free`, which has a variance for each variable."""
    d = len(fit.variances)
    likelihood_free = free.score - 0.5 * rows * d * (np.log(2 * np.pi) + 1) - 0.5 * d * np.log(rows)
    gain = fit.score - float(likelihood_free)
    return VarianceEvidence(near.equal or gain > 0, near.spread, near.marginal, gain)


CLEAR_LOSS, CLEAR_LOSS_OF_FEW_ROWS = 0.02, 0.1
"""loss in score for which no better order can compensate: nats per row and variable, and nats per squared number of
variables"""


def clearly_unequal(S: FloatArray, first_fit: LinearFit, free: Callable[[], BestOrder], rows: int) -> bool:
    """Whether the `first_fit` with equal variances is so bad that no fit with equal variances can be chosen.

    The spread of its variances must exceed twice the largest spread that counts as near equal. Its score must be so far
    below the score of the fit `free`, which has a variance for each variable, that no better order can compensate.
    """
    near, d = variances_near_equal(S, first_fit), len(S)
    if near.spread <= 2 * min(MAX_SPREAD, MAX_SPREAD_RATIO * near.marginal):
        return False
    gain = variance_evidence(near, first_fit, free(), rows).gain
    return gain < -d * (CLEAR_LOSS * rows + CLEAR_LOSS_OF_FEW_ROWS * d)
