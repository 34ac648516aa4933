"""A linear SEM with equal error variances from exact second moments: the better of two orders (ours).

One order is read from the top given all earlier variables (`top_down.py`): the best where rows are many. The other
selects few parents for each variable on the way (`equal_variance.py`): the best where they are few. Under either order
parents are eliminated from all earlier variables, with the price of the Bayesian information criterion for a parent, ln
n, plus 2 ln d for there being many to choose from (Chen & Chen 2008). The likelihood says which order is the better.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..score.gaussian_order import Prior, no_prior
from ..statistics.moments import residual_variances
from .equal_variance import equal_variance
from .top_down import eliminated, in_turn, top_down

ENOUGH = 2
"""how many rows a variable it takes to regress each variable on all others"""
FEW = 0.05
"""least share of the least variance that a parent must explain while the order is found from few rows"""


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


@dataclass(frozen=True)
class KnownOrder:
    """What is known beforehand: which variables precede which, `[d, d]`, and which parents are possible or required."""

    precedes: NDArray[np.bool_]
    prior: Prior


def known_order(schema: Schema) -> KnownOrder:
    """Return what the public `schema` says is known."""
    names, known = schema.variables, schema.knowledge
    return KnownOrder(known.precedes(names), Prior(known.possible(names), known.needed(names)))


def equal_errors(
    S: FloatArray, rows: int, most_parents: int, passes: int, known: KnownOrder | None = None
) -> LinearFit:
    """Return the better of two fits with equal error variances to second moments `S` `[d, d]` of so many rows.

    `most_parents` and `passes` bound the search for few rows (see `equal_variance.equal_variance`).
    """
    d = len(S)
    known = known or KnownOrder(np.zeros((d, d), np.bool_), no_prior(d))
    few = max(FEW, 3 * math.log(d) / rows)
    orders = [in_turn(equal_variance(S, few, most_parents, passes).order, known.precedes)]
    if rows > ENOUGH * d:
        orders.insert(0, top_down(S, known.precedes))
    price = math.log(rows) + 2 * math.log(d)
    fits = (_fitted(S, eliminated(S, order, rows, price, known.prior), rows) for order in orders)
    return max(fits, key=lambda fit: fit.score)


def _fitted(S: FloatArray, weights: FloatArray, rows: int) -> LinearFit:
    d, variances = len(S), residual_variances(S, weights)
    edges = np.count_nonzero(weights)
    likelihood = -0.5 * rows * d * (math.log(2 * math.pi * float(variances.mean())) + 1)
    price = 0.5 * math.log(rows) * (edges + 1) + edges * math.log(d)
    return LinearFit(weights, variances, likelihood - price)
