"""Learners that start from one pooled covariance: no rows, no rounds, no further exchange (Ng & Zhang 2022, §4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..admm import fed_sparse, notears_admm
from ..admm.notears import Notears
from ..admm.problem import MomentsOf
from ..core.protocol import FederatedAlgorithm, rounds
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.structure import Structure
from ..in_process import InProcessFederation
from ..statistics.moments import SecondMoments
from .equal_variance import equal_variance
from .searched import ges_from_moments, pc_from_moments

Learner = Literal["equal-variance", "notears", "fed-sparse", "notears-admm", "pc", "ges"]


@dataclass(frozen=True)
class PooledLearner:
    """How a structure is learned from second moments."""

    learner: Learner = "equal-variance"
    """notears, fed-sparse, notears-admm: the consensus loop with one silo and its settings; pc, ges: a CPDAG"""
    price: float = 0.0
    """equal-variance: variance a parent must explain, in units of the least variance; 0: chosen by rows and noise"""
    most_parents: int = 12
    """equal-variance: most parents of a variable"""
    passes: int = 10
    """equal-variance: most passes of moves that improve the order"""
    l1: float = 0.0
    """the consensus learners: λ; 0: their own default"""
    threshold: float = 0.3
    """τ: weights not above it are no edges"""
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
        require(0 < self.alpha < 1, "alpha", self.alpha, "between 0 and 1")


CONSENSUS: dict[str, tuple[Any, Callable[[Any, MomentsOf], FederatedAlgorithm[Any, Any, Any, Any]]]] = {
    "notears": (Notears, fed_sparse.build),
    "fed-sparse": (fed_sparse.FedSparse, fed_sparse.build),
    "notears-admm": (notears_admm.NotearsAdmm, notears_admm.build),
}


def learn_from_moments(
    S: FloatArray, rows: int, variables: tuple[str, ...], how: PooledLearner, noise: float = 0.0
) -> Structure:
    """Return the structure that `how.learner` finds in second moments `S` `[d, d]` of `rows` rows.

    `noise` is the standard deviation that noise has in S, in units of the variables' scales.
    """
    if how.learner == "pc":
        return pc_from_moments(S, rows, noise, variables, how.alpha)
    if how.learner == "ges":
        return ges_from_moments(S, rows, noise, variables)
    if how.learner == "equal-variance":
        weights = equal_variance(S, how.price or exact_price(len(S), rows), how.most_parents, how.passes).weights
        return Structure(variables, np.where(np.abs(weights) > how.threshold, weights, 0.0), scores=np.abs(weights))
    kind, build = CONSENSUS[how.learner]
    settings = kind(threshold=how.threshold) if how.l1 == 0 else kind(l1=how.l1, threshold=how.threshold)
    algorithm = build(settings, lambda table, schema, silo: SecondMoments(table, rows))
    *_, last = rounds(algorithm, InProcessFederation(Schema(variables, {"pooled": rows}), {"pooled": S}))
    return algorithm.structure(last.server)


def exact_price(d: int, rows: int) -> float:
    """Return the price of a parent where S has only sampling error: above what the best of d explains by chance."""
    return max(0.05, 3 * float(np.log(d)) / rows)
