"""Learners that start from one pooled covariance: no rows, no rounds, no further exchange (Ng & Zhang 2022, §4).

How many lags a time series takes: the order of least BIC, from summed second moments of its windows (ours).

Graph searches on pooled second moments, exact or private: PC by Fisher's z and GES by BIC, CPDAGs from one sum.

Second moments do not contain means: the variables count as centred. The tests allow for the noise of private moments;
the BIC treats noise as a loss of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..admm import fed_sparse, notears_admm
from ..admm.fed_sparse import Notears
from ..admm.problem import MomentsOf
from ..constraint.fisher_z import fisher_z
from ..constraint.orientation import PC
from ..constraint.search import ConstraintSettings, plan, run
from ..core.knowledge import Prior, no_prior
from ..core.protocol import FederatedAlgorithm, learn_alone
from ..core.schema import FloatArray, Lags, Schema, require_lags
from ..errors import require
from ..graphs.structure import Structure, stacked
from ..parameters.tables import dag_extension
from ..score.families import SearchSettings
from ..score.gaussian import score_covariance
from ..score.procedures import GES, search
from ..statistics.lagged import given_the_past
from ..statistics.moments import SecondMoments, in_own_units, residual_variances
from .equal_variance import best_equal_variance_fit, equal_variance, selected

PASSES = 10
"""of moves that improve the order of the variables, for each number of lags"""
ALIKE = 1e-3
"""criteria that differ by no more are equal but for rounding"""


def lagged_price(columns: int, rows: float) -> float:
    """Return what a parent among `columns` candidates must explain, in units of the least variance: (ln n + ln m)/n.

    That is BIC with the extra term of EBIC (Chen & Chen 2008) for the number of candidates.
    """
    return float((np.log(rows) + np.log(columns)) / rows)


def information_criteria(S: FloatArray, rows: int, d: int, most_parents: int) -> FloatArray:
    """The BIC of 1, 2, ... lags, `[lags]`, for second moments `S` `[m, m]` of `rows` windows, m = (lags + 1)·d.

    It is n Σ_j ln v_j + (ln n + 2 ln m)·k, with v_j the residual variances and k the edges of the structure learned
    with so many lags at that price: more lags are more candidates, of which some always fit. All orders are compared on
    the same windows, those of the longest reach, with the same m.
    """
    price = lagged_price(len(S) ** 2, rows)
    found = []
    for width in range(2 * d, len(S) + 1, d):
        part = S[:width, :width]
        weights = equal_variance(part, price, most_parents, PASSES, d).weights
        fit = float(np.log(residual_variances(part, weights)).sum())
        found.append(rows * (fit + price * np.count_nonzero(weights)))
    return np.array(found)


def moments_of_least_bic(S: FloatArray, rows: int, d: int, most_parents: int) -> FloatArray:
    """The part of second moments `S` `[m, m]` that the lags of least BIC reach (see `information_criteria`)."""
    width = (least_bic(information_criteria(S, rows, d, most_parents)) + 1) * d
    return S[:width, :width]


def least_bic(criteria: FloatArray) -> int:
    """The number of lags of least BIC, the smallest of several: more lags often add nothing at all."""
    return 1 + int(np.flatnonzero(criteria <= criteria.min() + ALIKE)[0])


# The factor by which regressions on a few parents amplify noise: found on graphs of 10 variables, ε from 1 to 20.
GROWN = 10.0


def pc_from_moments(
    S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], alpha: float, prior: Prior | None = None
) -> Structure:
    """The CPDAG that PC finds in second moments `S` `[d, d]` of so many `rows`, with tests of level `alpha`.

    `noise` is the standard deviation of the noise in the correlations, `prior` what is known of the graph.
    """
    settings = ConstraintSettings(alpha=alpha, rows_per_cell=0.0)
    correlations = in_own_units(S)
    search = plan(settings, np.ones(len(S), np.int64), rows, PC.pools, prior)
    found = run(search, lambda tests: fisher_z(rows, correlations, tests, noise))
    return PC.graph(found, variables, settings.orientation, prior or no_prior(len(S)))


def ges_from_moments(
    S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], prior: Prior | None = None
) -> Structure:
    """The CPDAG that GES, by Gaussian BIC, finds in second moments `S` `[d, d]` of so many `rows`.

    `noise` is the standard deviation of the noise in the correlations. Conditioning on parents amplifies it: S is
    treated as if it came from 1/(1/n + (GROWN·noise)²) rows.
    """
    blurred, correlations = int(1 / (1 / rows + (GROWN * noise) ** 2)), in_own_units(S)
    graph = search(GES, len(S), SearchSettings(), lambda batch: score_covariance(blurred, correlations, batch), prior)
    return Structure(variables, graph.astype(np.float64), "cpdag")


Learner = Literal["equal-variance", "notears", "fed-sparse", "notears-admm", "pc", "ges"]


@dataclass(frozen=True)
class PooledLearner:
    """How a structure is learned from second moments."""

    learner: Learner = "equal-variance"
    """notears, fed-sparse, notears-admm: the consensus loop with one silo and its settings; pc, ges: a CPDAG; mixed
    data have BOSS by the degenerate Gaussian score whatever the default"""
    price: float = 0.0
    """equal-variance: variance a parent must explain, in units of the least variance; 0: by noise, and without any by
    an information criterion on all earlier variables"""
    most_parents: int = 12
    """equal-variance: most parents of a variable, where there is noise or a price, and in time series"""
    passes: int = 10
    """equal-variance: most passes of moves that improve the order"""
    l1: float = 0.0
    """the consensus learners: λ; 0: their own default"""
    threshold: float = 0.3
    """τ: weights not above it are no edges"""
    center: bool = True
    """subtract each silo's own means: where a site stands says nothing; not with an ε, which does not cover them"""
    lags: Lags = 1
    """time series: how many steps back an edge may reach; auto: by BIC"""
    most_lags: int = 5
    """time series: how many lags `auto` looks at, if the series are long enough"""
    series_threshold: float = 0.1
    """time series: τ; a stable series has small weights"""
    center_series: bool = True
    """time series: subtract each silo's own levels, means that are beyond chance; not with an ε, which does not cover
    them"""
    alpha: float = 0.01
    """pc: level of the tests"""

    @property
    def class_only(self) -> bool:
        """Whether what is learned is an equivalence class, without weights."""
        return self.learner in ("pc", "ges")

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.price >= 0, "price", self.price, "0 or more")
        require(self.most_parents >= 1, "most_parents", self.most_parents, "1 or more")
        require(self.passes >= 0, "passes", self.passes, "0 or more")
        require(self.l1 >= 0, "l1", self.l1, "0 or more")
        require(self.threshold >= 0, "threshold", self.threshold, "0 or more")
        require(self.series_threshold >= 0, "series_threshold", self.series_threshold, "0 or more")
        require_lags(self.lags)
        require(self.most_lags >= 1, "most_lags", self.most_lags, "1 or more")
        require(0 < self.alpha < 1, "alpha", self.alpha, "between 0 and 1")


CONSENSUS: dict[str, tuple[Any, Callable[[Any, MomentsOf, int], FederatedAlgorithm[Any, Any, Any, Any]]]] = {
    "notears": (Notears, fed_sparse.build),
    "fed-sparse": (fed_sparse.FedSparse, fed_sparse.build),
    "notears-admm": (notears_admm.NotearsAdmm, notears_admm.build),
}


def learn_from_moments(
    S: FloatArray,
    rows: int,
    variables: tuple[str, ...],
    how: PooledLearner,
    noise: float = 0.0,
    known: Prior | None = None,
) -> Structure:
    """The structure that `how.learner` finds in second moments `S` `[m, m]` of `rows` rows.

    With more columns than `variables`, S is that of windows of time series: the d variables, and below them what they
    were one step before, two steps before, ...; the structure is dynamic. `noise` is the standard deviation that noise
    has in S, in units of the variables' scales; what is `known` beforehand, PC, GES and equal-variance look at,
    the latter without noise.
    """
    if len(S) > len(variables):
        return learn_from_windows(S, rows, variables, how, noise)
    if how.learner == "pc":
        return pc_from_moments(S, rows, noise, variables, how.alpha, known if known else None)
    if how.learner == "ges":
        return ges_from_moments(S, rows, noise, variables, known if known else None)
    if how.learner == "equal-variance":
        if how.price:
            weights = equal_variance(S, how.price, how.most_parents, how.passes).weights
        else:
            weights = best_equal_variance_fit(S, rows, known).weights
        return Structure(variables, np.where(np.abs(weights) > how.threshold, weights, 0.0), scores=np.abs(weights))
    return by_consensus(S, rows, variables, how, how.threshold)


def learn_from_windows(
    S: FloatArray, rows: int, variables: tuple[str, ...], how: PooledLearner, noise: float
) -> Structure:
    """The dynamic structure that `how.learner` finds in moments `S` `[m, m]` (see `learn_from_moments`).

    A learner of classes finds the edges within one time in what the past leaves of the variables, then lagged ones are
    selected with the parents in one member of the class.
    """
    d = len(variables)
    price = how.price or lagged_price(len(S), rows)
    if how.class_only:
        within = learn_from_moments(given_the_past(S, d), max(rows - len(S) + d, 2), variables, how, noise)
        dag = dag_extension(within).dag
        assert dag is not None
        lagged = selected(S, dag, price, how.most_parents)[d:].reshape(-1, d, d)
        return replace(within, lagged=lagged, lagged_scores=np.abs(lagged))
    if how.learner != "equal-variance":
        return by_consensus(S, rows, variables, how, how.series_threshold)
    strengths = np.abs(weights := equal_variance(S, price, how.most_parents, how.passes, d).weights)
    return stacked(variables, np.where(strengths > how.series_threshold, weights, 0.0), strengths)


def by_consensus(
    S: FloatArray, rows: int, variables: tuple[str, ...], how: PooledLearner, threshold: float
) -> Structure:
    """Return what the consensus loop finds with one silo, whose moments are `S` `[m, m]`."""
    kind, build = CONSENSUS[how.learner]
    settings = kind(threshold=threshold) if how.l1 == 0 else kind(l1=how.l1, threshold=threshold)
    lags = len(S) // len(variables) - 1
    algorithm = build(settings, lambda table, schema, silo: SecondMoments(table, rows), lags)
    return learn_alone(algorithm, Schema(variables, {"pooled": rows}, stretches={"pooled": (rows + lags,)}), S)


def exact_price(d: int, rows: int) -> float:
    """The price of a parent where S has only sampling error: above what the best of d explains by chance."""
    return max(0.05, 3 * float(np.log(d)) / rows)
