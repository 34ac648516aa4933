"""Multinomial logistic regressions by Newton's method, whose sums over rows are added up over silos.

Of a discrete variable with coded parents: weights are `[levels − 1, 1 + coded columns of the parents]`, the first
column for the intercept; the first level has none. A Gaussian prior of mean 0 on the others, for standardised columns,
keeps them finite.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.coding import Coding
from ..statistics.symmetric import from_triangle, triangle
from .mixed_network import Logistic, softmax

TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Family:
    """A discrete variable, its parents, how these are standardised, and the weights of its regression so far."""

    child: int
    parents: NDArray[np.intp]
    coding: Coding
    shifts: FloatArray
    scales: FloatArray
    weights: FloatArray

    def fit(self, rows: FloatArray) -> FloatArray:
        """Return what those of `rows` add that have all cells of the family."""
        there = rows[~np.isnan(rows[:, [self.child, *self.parents]]).any(axis=1)]
        columns = (self.coding.rows(there[:, self.parents]) - self.shifts) / self.scales
        design = np.column_stack([np.ones(len(there)), columns])
        return sums_of(design, there[:, self.child].astype(np.int64), self.weights)


def sums_of(columns: FloatArray, codes: NDArray[np.int64], weights: FloatArray) -> FloatArray:
    """Return the log-likelihood of `codes` `[n]` under `weights`, its gradient, and minus its Hessian, packed."""
    levels, p = weights.shape
    chances = softmax(np.column_stack([np.zeros(len(columns)), columns @ weights.T]))
    likelihood = np.log(np.maximum(chances[np.arange(len(codes)), codes], 1e-300)).sum()
    residuals = (codes[:, None] == np.arange(1, levels + 1)) - chances[:, 1:]
    curvature = np.empty((levels, p, levels, p))
    for a in range(levels):
        for b in range(levels):
            spread = chances[:, a + 1] * ((a == b) - chances[:, b + 1])
            curvature[a, :, b, :] = (columns * spread[:, None]).T @ columns
    gradient = residuals.T @ columns
    return np.concatenate([[likelihood], gradient.ravel(), triangle(curvature.reshape(levels * p, levels * p))])


def packed_size(weights: int) -> int:
    """Return how many numbers a regression of so many weights sends: log-likelihood, gradient, half of its Hessian."""
    return 1 + weights + weights * (weights + 1) // 2


def newton_step(packed: FloatArray, weights: FloatArray, prior: float) -> tuple[float, FloatArray]:
    """Return the penalised log-likelihood of `weights`, and the step to its greatest value if it were quadratic.

    `packed` are the sums `[packed_size]` of all rows, over their number; `prior` is its precision, over it, too.
    """
    q, free = weights.size, np.array([0.0] + [1.0] * (weights.shape[1] - 1))
    penalised = weights * free
    gradient = packed[1 : 1 + q] - prior * penalised.ravel()
    curvature = from_triangle(packed[1 + q :]) + np.diag(prior * np.tile(free, len(weights)) + TINY)
    likelihood = float(packed[0]) - 0.5 * prior * float((penalised**2).sum())
    return likelihood, np.asarray(np.linalg.solve(curvature, gradient))


def unscaled(weights: FloatArray, shifts: FloatArray, scales: FloatArray) -> Logistic:
    """Return the regression on coded columns as they are, from `weights` on standardised ones."""
    slopes = weights[:, 1:] / scales
    intercepts = weights[:, 0] - slopes @ shifts
    return Logistic(np.append(0.0, intercepts), np.vstack([np.zeros(slopes.shape[1]), slopes]))
