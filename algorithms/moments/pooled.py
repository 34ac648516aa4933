"""Learners from one pooled covariance, exact or private, without rows or further exchanges (Ng & Zhang 2022, §4).

- `information_criteria`, `least_bic`: the number of lags of a time series with the least BIC, from summed second
  moments of its windows (ours).
- `pc_from_moments`, `ges_from_moments`: CPDAGs by PC with Fisher's z and by GES with BIC. Second moments do not contain
  means, so the variables are assumed to be centred. Private moments have noise: the tests of PC allow for it, and the
  BIC of GES is that of fewer rows.
- `PooledLearner`, `learn_from_moments`: the settings, and the structure that the chosen learner finds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import dag_extension

from ..admm import fed_sparse, notears_admm
from ..admm.notears import Notears
from ..admm.problem import MomentsOf
from ..constraint.moment_tests import fisher_z
from ..constraint.orientation import PC
from ..constraint.search import create_plan, run
from ..constraint.settings import ConstraintSettings
from ..core.knowledge import Prior, no_prior
from ..core.protocol import FederatedAlgorithm, learn_alone
from ..core.schema import FloatArray, Lags, Schema
from ..core.settings import Count, NonNegative, Settings, Share
from ..graphs.structure import Structure, stacked
from ..score.gaussian import score_covariance
from ..score.gaussian_order import parents_in_order
from ..score.procedures import GES, search
from ..score.settings import SearchSettings
from ..statistics.lagged import moments_given_past
from ..statistics.moments import SecondMoments, regression_weights, residual_variances, top_down_order, unit_diagonal
from .equal_variance import MAX_PASSES, MIN_ROWS_PER_VARIABLE, best_equal_variance_fit, equal_variance, select_weights

CRITERION_TOLERANCE = 1e-3
"""largest difference at which two criteria count as equal"""


def lagged_price(columns: int, rows: float) -> float:
    """The share of the least variance that a parent among m `columns` must explain, (ln n + ln m)/n.

    This is BIC with the extra term of EBIC (Chen & Chen 2008) for the number of candidates.
    """
    return float((np.log(rows) + np.log(columns)) / rows)


MIN_BASE_GAIN = 4.0
"""minimum gain of a parent, on twice the log-likelihood, in the model of one lag; longer lags are compared with it"""


def information_criteria(S: FloatArray, rows: int, d: int) -> FloatArray:
    """The BIC of 1, 2, ... lags, `[lags]`, for second moments `S` `[m, m]` of `rows` windows, m = (lags + 1)·d.

    BIC is n Σ_j ln v_j + (ln n + 2 ln (lags·d²))·k for the residual variances v_j and the k lagged edges that longer
    lags add to a model of one lag. All models use the windows of the largest number of lags. The price of an edge grows
    with the number of candidate edges, because the best of many absent edges explains much by chance. Parents in the
    model of one lag have a low price, because an effect that is missing there would appear at another lag.

    All models have the same order of the variables within a step. This order need not be the true one: given the last p
    rows, any subset of the present variables of a VAR(p) is independent of earlier rows.
    """
    lags = len(S) // d - 1
    price, free = float(np.log(rows) + 2 * np.log(lags * d * d)), no_prior(d)
    order = _any_order(S, rows, d)
    dag, added, criteria = np.zeros((0, d), np.bool_), 0, []
    for width in range(2 * d, len(S) + 1, d):
        part, prior = S[:width, :width], free.of_windows(width)
        if width > 2 * d:
            prior.required[: len(dag), :d] = dag
        before = int(dag.sum())
        dag = parents_in_order(part, order, rows, price if width > 2 * d else MIN_BASE_GAIN, prior)
        added += int(dag.sum()) - before if width > 2 * d else 0
        variances = residual_variances(part, regression_weights(part, dag))
        criteria.append(rows * float(np.log(variances).sum()) + price * added)
    return np.array(criteria)


def _any_order(S: FloatArray, rows: int, d: int) -> NDArray[np.int64]:
    """The order of least variances within a step, given all lags, or given one lag if there are too few windows."""
    width = len(S) if rows > MIN_ROWS_PER_VARIABLE * len(S) else 2 * d
    return order_given_past(S[:width, :width], d)


def order_given_past(S: FloatArray, d: int) -> NDArray[np.int64]:
    """The order of the d variables by least variance given the lagged columns of `S` `[m, m]` and earlier variables."""
    return np.argsort(top_down_order(moments_given_past(S, d))[0])


def moments_of_least_bic(S: FloatArray, rows: int, d: int) -> FloatArray:
    """The submatrix of second moments `S` `[m, m]` for the lags of least BIC (see `information_criteria`).

    If there are too few windows even for one lag, the result is one lag.
    """
    few = rows <= MIN_ROWS_PER_VARIABLE * 2 * d
    width = 2 * d if few else (least_bic(information_criteria(S, rows, d)) + 1) * d
    return S[:width, :width]


def least_bic(criteria: FloatArray) -> int:
    """The number of lags of least BIC; the smallest if several are equal, because further lags often add nothing."""
    return 1 + int(np.flatnonzero(criteria <= criteria.min() + CRITERION_TOLERANCE)[0])


# The factor by which regressions on a few parents amplify noise, tuned on graphs of 10 variables with ε from 1 to 20.
NOISE_GROWTH = 10.0


def rows_with_noise(rows: int, noise: float) -> int:
    """The number of rows whose moments without noise are as uncertain as the moments of `rows` rows with this `noise`.

    It is 1/(1/n + (NOISE_GROWTH·noise)²), because conditioning on parents amplifies the noise.
    """
    return max(1, int(1 / (1 / rows + (NOISE_GROWTH * noise) ** 2)))


def pc_from_moments(
    S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], alpha: float, prior: Prior | None = None
) -> Structure:
    """The CPDAG that PC finds in second moments `S` `[d, d]` of this number of `rows`, with tests of level `alpha`.

    `noise` is the standard deviation of the noise in the correlations, `prior` the background knowledge.
    """
    settings = ConstraintSettings(alpha=alpha, rows_per_cell=0.0)
    correlations = unit_diagonal(S)
    search = create_plan(settings, np.ones(len(S), np.int64), rows, PC.pools, prior)
    found = run(search, lambda tests: fisher_z(rows, correlations, tests, noise))
    return PC.graph(found, variables, settings.orientation, prior or no_prior(len(S)))


def ges_from_moments(
    S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], prior: Prior | None = None
) -> Structure:
    """The CPDAG that GES finds by Gaussian BIC in second moments `S` `[d, d]` of this number of `rows`.

    `noise` is the standard deviation of the noise in the correlations.
    """
    effective, correlations = rows_with_noise(rows, noise), unit_diagonal(S)
    graph = search(GES, len(S), SearchSettings(), lambda batch: score_covariance(effective, correlations, batch), prior)
    return Structure(variables, graph.astype(np.float64), "cpdag")


Learner = Literal["equal-variance", "notears", "fed-sparse", "notears-admm", "pc", "ges"]


SERIES_THRESHOLD = 0.1
"""τ of time series; a stable series has small weights"""


@dataclass(frozen=True)
class PooledLearner(Settings):
    """Settings of learning a structure from second moments."""

    learner: Learner = "equal-variance"
    """notears, fed-sparse, notears-admm: the consensus loop with one silo; pc, ges: a CPDAG; mixed data are always
    learned by BOSS with the degenerate Gaussian score"""
    price: NonNegative = 0.0
    """equal-variance: variance that a parent must explain, in units of the least variance; 0: derived from the noise
    or, without noise, selection by an information criterion among all earlier variables"""
    max_parents: Count = 12
    """equal-variance: maximum number of parents of a variable (with noise, with a price, and in time series)"""
    l1: NonNegative = 0.0
    """notears, fed-sparse, notears-admm: λ; 0: the default of the learner"""
    threshold: NonNegative = 0.3
    """τ: edges with smaller absolute weight are dropped"""
    center: bool = True
    """subtract each silo's own means, because site offsets carry no causal information; means are never subtracted with
    an ε, which does not account for them"""
    lags: Lags = 1
    """time series: how many steps back an edge may reach; auto: by BIC"""
    max_lags: Count = 5
    """time series: the largest number of lags that `auto` considers, if the series are long enough"""
    center_series: bool = True
    """time series: subtract each silo's means that differ significantly from 0; means are never subtracted with an ε,
    which does not account for them"""
    alpha: Share = 0.01
    """pc: significance level of the tests"""

    @property
    def class_only(self) -> bool:
        """Whether the learner finds an equivalence class, without weights."""
        return self.learner in ("pc", "ges")


CONSENSUS: dict[str, tuple[Any, Callable[[Any, MomentsOf, int], FederatedAlgorithm[Any, Any, Any, Any]]]] = {
    "notears": (Notears, fed_sparse.build),
    "fed-sparse": (fed_sparse.FedSparse, fed_sparse.build),
    "notears-admm": (notears_admm.NotearsAdmm, notears_admm.build),
}


def learn_from_moments(
    S: FloatArray,
    rows: int,
    variables: tuple[str, ...],
    settings: PooledLearner,
    noise: float = 0.0,
    prior: Prior | None = None,
) -> Structure:
    """The structure that `settings.learner` finds in second moments `S` `[m, m]` of `rows` rows.

    If S has more columns than there are `variables`, it belongs to windows of time series, and the structure is
    dynamic: the columns are the d variables, then the same variables one step before, two steps before, and so on.
    `noise` is the standard deviation of the noise in S, in units of the variables' scales. The background knowledge
    `prior` is used by PC, GES, and equal-variance without a price, but not for time series.
    """
    if len(S) > len(variables):
        return learn_from_windows(S, rows, variables, settings, noise)
    if settings.learner == "pc":
        return pc_from_moments(S, rows, noise, variables, settings.alpha, prior if prior else None)
    if settings.learner == "ges":
        return ges_from_moments(S, rows, noise, variables, prior if prior else None)
    if settings.learner == "equal-variance":
        if settings.price:
            weights = equal_variance(S, settings.price, settings.max_parents, MAX_PASSES).weights
        else:
            weights = best_equal_variance_fit(S, rows, prior).weights
        return Structure(
            variables, np.where(np.abs(weights) > settings.threshold, weights, 0.0), scores=np.abs(weights)
        )
    return learn_by_consensus(S, rows_with_noise(rows, noise), variables, settings, settings.threshold)


def learn_from_windows(
    S: FloatArray, rows: int, variables: tuple[str, ...], settings: PooledLearner, noise: float
) -> Structure:
    """The dynamic structure that `settings.learner` finds in moments `S` `[m, m]` (see `learn_from_moments`).

    A learner of equivalence classes finds the edges within a time step from the residuals given the past. Then the
    lagged parents are selected jointly with the parents in one member of the class.
    """
    d = len(variables)
    price = settings.price or lagged_price(len(S), rows)
    if settings.class_only:
        within = learn_from_moments(moments_given_past(S, d), max(rows - len(S) + d, 2), variables, settings, noise)
        dag = dag_extension(within).dag
        assert dag is not None
        lagged = select_weights(S, dag, price, settings.max_parents)[d:].reshape(-1, d, d)
        return replace(within, lagged=lagged, lagged_scores=np.abs(lagged))
    if settings.learner != "equal-variance":
        return learn_by_consensus(S, rows_with_noise(rows, noise), variables, settings, SERIES_THRESHOLD)
    strengths = np.abs(weights := equal_variance(S, price, settings.max_parents, MAX_PASSES, d).weights)
    return stacked(variables, np.where(strengths > SERIES_THRESHOLD, weights, 0.0), strengths)


def learn_by_consensus(
    S: FloatArray, rows: int, variables: tuple[str, ...], settings: PooledLearner, threshold: float
) -> Structure:
    """The structure that the consensus loop finds with a single silo, whose second moments are `S` `[m, m]`."""
    kind, build = CONSENSUS[settings.learner]
    learner_settings = kind(threshold=threshold) if settings.l1 == 0 else kind(l1=settings.l1, threshold=threshold)
    lags = len(S) // len(variables) - 1
    algorithm = build(learner_settings, lambda table, schema, silo: SecondMoments(table, rows), lags)
    return learn_alone(algorithm, Schema(variables, {"pooled": rows}, stretches={"pooled": (rows + lags,)}), S)


def exact_price(d: int, rows: int) -> float:
    """The price of a parent if second moments have no noise: by chance, the best of d candidates explains less."""
    return max(0.05, 3 * float(np.log(d)) / rows)
