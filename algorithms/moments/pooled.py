"""Learners that start from one pooled covariance: no rows, no rounds, no further exchange (Ng & Zhang 2022, §4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..admm import fed_sparse, notears_admm
from ..admm.notears import Notears
from ..admm.problem import MomentsOf
from ..core.knowledge import Prior
from ..core.lags import Lags, require_lags
from ..core.one_silo import learn_alone
from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.structure import Structure, stacked
from ..parameters.extension import extension
from ..statistics.lagged import given_the_past
from ..statistics.moments import SecondMoments
from .equal_errors import equal_errors
from .equal_variance import equal_variance, selected
from .lag_order import lagged_price
from .searched import ges_from_moments, pc_from_moments

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
    """Return the structure that `how.learner` finds in second moments `S` `[m, m]` of `rows` rows.

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
            weights = equal_errors(S, rows, known).weights
        return Structure(variables, np.where(np.abs(weights) > how.threshold, weights, 0.0), scores=np.abs(weights))
    return by_consensus(S, rows, variables, how, how.threshold)


def learn_from_windows(
    S: FloatArray, rows: int, variables: tuple[str, ...], how: PooledLearner, noise: float
) -> Structure:
    """Return the dynamic structure that `how.learner` finds in moments `S` `[m, m]` (see `learn_from_moments`).

    A learner of classes finds the edges within one time in what the past leaves of the variables, then lagged ones are
    selected with the parents in one member of the class.
    """
    d = len(variables)
    price = how.price or lagged_price(len(S), rows)
    if how.class_only:
        within = learn_from_moments(given_the_past(S, d), max(rows - len(S) + d, 2), variables, how, noise)
        dag = extension(within).dag
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
    """Return the price of a parent where S has only sampling error: above what the best of d explains by chance."""
    return max(0.05, 3 * float(np.log(d)) / rows)
