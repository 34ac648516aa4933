"""A linear SEM with equal error variances from exact second moments: the best of several orders (ours).

One order is read from the top given all earlier variables (`statistics/top_down.py`): the best where rows are many.
Others select few parents for each variable on the way (`equal_variance.py`), first those of large effects, then those
that the information criterion pays for once the error variance is known: the best where rows are few. Under any order
parents are eliminated from all earlier variables, with the price of the Bayesian information criterion for a parent, ln
n, plus 2 ln d for there being many to choose from (Chen & Chen 2008). The likelihood says which order is the best.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..errors import BadInput
from ..statistics.top_down import top_down
from .elimination import eliminated, in_turn
from .equal_variance import equal_variance

ENOUGH = 2
"""how many rows a variable it takes to regress each variable on all others"""
FEW = 0.05
"""least share of the least variance that a parent must explain while the first order is found"""
PASSES = 10
"""most passes of moves that improve an order"""
REFINEMENTS = 3
"""how often the price of a parent follows the error variance found"""
EQUAL = 1e-9
"""scores that differ by less are equal"""
AS_EXPECTED = 4.0
"""equal variances, each estimated from n rows, have a spread of about 1/n: with less than so many times that, no other
order is sought"""
DETERMINED = 1e-12
"""no residual variance is a smaller share of the variance: less is rounding"""


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


def equal_errors(S: FloatArray, rows: int, prior: Prior | None = None) -> LinearFit:
    """Return the best of the fits with equal error variances to second moments `S` `[d, d]` of so many rows."""
    d = len(S)
    known = prior or no_prior(d)
    price = math.log(rows) + 2 * math.log(d)

    def fit(order: NDArray[np.int64]) -> LinearFit:
        return _fitted(S, eliminated(S, in_turn(order, known.precedes), rows, price, known), rows)

    fits = [fit(np.argsort(top_down(S, known.precedes)[0]))] if rows > ENOUGH * d else []
    if fits and spread_of(fits[0].variances) < AS_EXPECTED / rows:
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


def spread_of(variances: FloatArray) -> float:
    """Return ln of the mean of `variances` less the mean of their ln: 0 if all are equal, above 0 if not."""
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
