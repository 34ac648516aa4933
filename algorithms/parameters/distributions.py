"""The distributions of a variable given its parents, of which `Network` is made.

A number has a linear regression on its parents. A label has a table of probabilities if all its parents are labels,
and a multinomial logistic regression if a parent is a number or the table is too large. In regressions, a label among
the parents is coded by the indicators of its levels except the first, as in the degenerate Gaussian score (Andrews et
al. 2019). A value is a number, or the code of a level.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..core.schema import FloatArray
from ..statistics.coding import Coding


class Distribution(ABC):
    """The distribution of a variable given its parents.

    Given the parents' values in a row, it is determined by what is `expected`: the mean of a number, or the
    probabilities of the levels of a label.
    """

    @abstractmethod
    def fits(self, levels: int, coding: Coding) -> bool:
        """Whether a variable with this number of `levels` (0 for a number) and parents of this `coding` can have it."""

    @abstractmethod
    def expected(self, parents: FloatArray, coding: Coding) -> FloatArray:
        """The means `[n_rows]`, or the probabilities `[n_rows, n_levels]`, for the values of `parents` `[n_rows, k]`.

        `coding` is the coding of these parents.
        """

    @abstractmethod
    def log_density(self, expected: FloatArray, values: FloatArray) -> FloatArray:
        """The log density or log probability `[n_rows]` of `values` `[n_rows]`; −∞ for a probability of 0."""

    @abstractmethod
    def draw(self, expected: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A drawn value for each row, `[n_rows]`."""


@dataclass(frozen=True, eq=False)
class Linear(Distribution):
    """x = intercept + Σ weight · coded parent + N(0, variance); `weights` `[coded columns of the parents]`."""

    intercept: float
    weights: FloatArray
    variance: float

    def fits(self, levels: int, coding: Coding) -> bool:
        """Whether the variable is a number, with a weight for each coded column of its parents."""
        return levels == 0 and self.weights.shape == (coding.size,)

    def expected(self, parents: FloatArray, coding: Coding) -> FloatArray:
        """The means `[n_rows]`."""
        return np.asarray(self.intercept + coding.rows(parents) @ self.weights)

    def log_density(self, expected: FloatArray, values: FloatArray) -> FloatArray:
        """The normal log density; a variance of 0 is replaced by a tiny variance."""
        return normal_log_density(values - expected, self.variance)

    def draw(self, expected: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A normal number for each row."""
        return np.asarray(expected + np.sqrt(self.variance) * rng.standard_normal(len(expected)))


class Categorical(Distribution):
    """The distribution of a label: `expected` are the probabilities of its levels."""

    def log_density(self, expected: FloatArray, values: FloatArray) -> FloatArray:
        """The log probability of the level in each row."""
        with np.errstate(divide="ignore"):  # a probability of 0 is a likelihood of 0
            return np.asarray(np.log(expected[np.arange(len(expected)), values.astype(np.int64)]))

    def draw(self, expected: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The code of a level for each row; published probabilities sum to 1 only up to their rounding."""
        cumulative = np.cumsum(expected, axis=1)
        uniforms = rng.random(len(expected))[:, None]
        return np.asarray((uniforms * cumulative[:, -1:] > cumulative[:, :-1]).sum(axis=1), np.float64)


@dataclass(frozen=True, eq=False)
class Logistic(Categorical):
    """P(level) ∝ exp(intercept + Σ weight · coded parent); intercepts `[levels]`, weights `[levels, coded columns]`."""

    intercepts: FloatArray
    weights: FloatArray

    def fits(self, levels: int, coding: Coding) -> bool:
        """Whether the variable is a label, with a weight for each level and coded column of its parents."""
        return self.weights.shape == (levels, coding.size) and self.intercepts.shape == (levels,)

    def expected(self, parents: FloatArray, coding: Coding) -> FloatArray:
        """The probabilities `[n_rows, n_levels]`."""
        return softmax(self.intercepts + coding.rows(parents) @ self.weights.T)


@dataclass(frozen=True, eq=False)
class Tabular(Categorical):
    """P(level | parents), `[levels of the first parent, ..., levels]`.

    The last axis sums to 1, up to the rounding of published tables.
    """

    table: FloatArray

    def fits(self, levels: int, coding: Coding) -> bool:
        """Whether the parents are labels, with an axis for each of them and one for the variable's own levels."""
        return all(coding.discrete) and self.table.shape == (*(width + 1 for width in coding.widths), levels)

    def expected(self, parents: FloatArray, coding: Coding) -> FloatArray:
        """The probabilities `[n_rows, n_levels]`."""
        found = self.table[tuple(parents.astype(np.int64).T)]
        return np.broadcast_to(found, (len(parents), self.table.shape[-1]))


def normal_log_density(residuals: FloatArray, variances: FloatArray | float) -> FloatArray:
    """The log density of each of the `residuals`; a variance of 0 is replaced by a tiny variance."""
    floored = np.maximum(variances, np.finfo(np.float64).tiny)
    return np.asarray(-0.5 * (np.log(2 * np.pi * floored) + residuals**2 / floored))


def softmax(scores: FloatArray) -> FloatArray:
    """The probabilities `[n, levels]` proportional to exp `scores`."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
