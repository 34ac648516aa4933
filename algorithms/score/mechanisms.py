"""Which conditions share the mechanism of a variable: classes of conditions for a family, and its score (ours).

The mechanism of a variable is its distribution given its parents. For a family (a child and its parents), each
condition (a silo, or a condition within a silo) starts as a class of its own. Two classes are joined as long as the
loss of log-likelihood is below the price of the parameters that joining saves. The price is the larger of the penalty
of BIC and half a quantile of χ². With the quantile, a class stays separate only if a likelihood-ratio test of a
different mechanism is significant at the level `FALSE_CHANGES`, divided by the numbers of variables and conditions
(Bonferroni). The family's score is

Σ_classes log-likelihood − (classes − 1)·price − ½ ln n·parameters − price of the parents.

So a graph in which fewer mechanisms change scores better. If one mechanism has changed, a graph with a wrong direction
shows changes in two (sparse mechanism shifts: Perry, von Kügelgen, Schölkopf 2022; Squires, Wang, Uhler 2020 test the
same invariances). The means of numbers are subtracted in every condition, so an offset does not count as a change.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from ..core.schema import FloatArray
from ..statistics.moments import covariance
from .discrete import Criterion, score_tables
from .families import Batch
from .gaussian import score_own_covariance
from .settings import SearchSettings

FALSE_CHANGES = 0.001
"""nominal probability that any mechanism is found to change if none does"""
MAX_CONDITIONS = 60
"""maximum number of conditions, because a class of conditions is stored as the bits of a 64-bit integer"""

Likelihood = Callable[[int, NDArray[np.int64]], FloatArray]
"""(conditions as bits, numbers of families) -> the maximum log-likelihood of these families in the rows of these
conditions together, `[n_families]`"""


@dataclass(frozen=True)
class Sums:
    """What is needed to score families: numbers of rows, likelihoods and numbers of parameters."""

    rows: NDArray[np.int64]
    """the number of rows of each condition, `[n_conditions]`"""
    likelihood: Callable[[Batch], Likelihood]
    """(families) -> the function for their log-likelihoods in any conditions"""
    parameters: Callable[[Batch], FloatArray]
    """the number of parameters of each family, `[n_families]`"""
    parent_price: float
    """further penalty of each parent"""
    variables: int
    """number of variables"""


@dataclass(frozen=True)
class Classes:
    """For each family, the classes of conditions that share a mechanism."""

    of_condition: NDArray[np.int64]
    """the class of each condition, as a number with a bit for each of its conditions, `[n_families, n_conditions]`"""
    likelihood: FloatArray
    """the sum of the log-likelihoods of the classes, `[n_families]`"""

    @property
    def number(self) -> NDArray[np.int64]:
        """The number of classes of each family."""
        ordered = np.sort(self.of_condition, axis=1)
        return np.asarray(1 + (np.diff(ordered, axis=1) != 0).sum(axis=1), np.int64)


def score_by_mechanism(batch: Batch, sums: Sums) -> FloatArray:
    """The score of every family of `batch`, with the best classes of conditions."""
    found, parameters = classes_of(batch, sums), sums.parameters(batch)
    prices = prices_of(parameters, sums)
    size = 0.5 * math.log(max(int(sums.rows.sum()), 2)) * parameters + sums.parent_price * (np.diff(batch.first) - 1)
    return np.asarray(found.likelihood - prices * (found.number - 1) - size)


def prices_of(parameters: FloatArray, sums: Sums) -> FloatArray:
    """The price of one more mechanism for families with these numbers of parameters, `[n_families]`."""
    tests = sums.variables * len(sums.rows)
    each, place = np.unique(parameters, return_inverse=True)
    by_test = 0.5 * np.asarray(chdtri(each, FALSE_CHANGES / tests))
    return np.asarray(np.maximum(by_test, 0.5 * each * math.log(max(float(sums.rows.mean()), 2.0)))[place.ravel()])


def classes_of(batch: Batch, sums: Sums) -> Classes:
    """The classes of conditions of each family of `batch`, joined step by step."""
    n, p = len(batch), len(sums.rows)
    likelihood, prices = sums.likelihood(batch), prices_of(sums.parameters(batch), sums)
    everything = np.arange(n)
    sets = np.tile(np.int64(1) << np.arange(p, dtype=np.int64), (n, 1))
    own = np.stack([likelihood(1 << u, everything) for u in range(p)], axis=1)
    gain, joint = np.full((n, p, p), -np.inf), np.zeros((n, p, p))

    def compare(families: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
        union = sets[families, a] | sets[families, b]
        values = np.empty(len(families))
        for one in np.unique(union).tolist():
            chosen = union == one
            values[chosen] = likelihood(one, families[chosen])
        joint[families, a, b] = values
        gain[families, a, b] = values - own[families, a] - own[families, b] + prices[families]

    for a in range(p):
        for b in range(a + 1, p):
            compare(everything, np.full(n, a), np.full(n, b))
    active = everything
    while len(active):
        flat = gain[active].reshape(len(active), -1)
        best = flat.argmax(axis=1)
        joined = flat[np.arange(len(active)), best] > 0
        active, (a, b) = active[joined], np.divmod(best[joined], p)
        own[active, a] = joint[active, a, b]
        sets[active, a] |= sets[active, b]
        sets[active, b] = 0
        gain[active, b, :], gain[active, :, b] = -np.inf, -np.inf
        for c in range(p):
            others = (sets[active, c] != 0) & (a != c)
            compare(active[others], np.minimum(a[others], c), np.maximum(a[others], c))
    members = (sets[:, :, None] >> np.arange(p)) & 1
    of_condition = (sets[:, :, None] * members).sum(axis=1)
    return Classes(of_condition, np.where(sets != 0, own, 0.0).sum(axis=1))


def sums_of_numbers(moments: FloatArray, d: int, parent_price: float) -> Sums:
    """The sums for numbers, from the moments of each condition `[n_conditions, size]`."""

    def likelihood(batch: Batch) -> Likelihood:
        parameters = np.diff(batch.first).astype(np.float64)

        def of(conditions: int, families: NDArray[np.int64]) -> FloatArray:
            n, S = covariance(moments[_bits(conditions, len(moments))].sum(axis=0), d)
            chosen = batch.selected(np.isin(np.arange(len(batch)), families))
            return score_own_covariance(n, S, chosen) + 0.5 * math.log(n) * parameters[families]

        return of

    rows = np.array([covariance(one, d)[0] for one in moments], np.int64)
    return Sums(rows, likelihood, lambda batch: np.diff(batch.first).astype(np.float64), parent_price, d)


def sums_of_tables(
    tables: NDArray[np.int64 | np.float64],
    rows: NDArray[np.int64],
    levels: NDArray[np.int64],
    settings: SearchSettings,
) -> Sums:
    """The sums for labels, from the count tables `[n_conditions, n_cells]` of the sets of one batch of families."""
    d = len(levels)

    def likelihood(batch: Batch) -> Likelihood:
        known: dict[int, FloatArray] = {}

        def of(conditions: int, families: NDArray[np.int64]) -> FloatArray:
            if conditions not in known:
                total = tables[_bits(conditions, len(rows))].sum(axis=0)
                known[conditions] = score_tables(total, batch, levels, Criterion(False, 0.0, np.zeros(d)), settings)
            return known[conditions][families]

        return of

    return Sums(rows, likelihood, lambda batch: parameters_of_tables(batch, levels), 0.0, d)


def parameters_of_tables(batch: Batch, levels: NDArray[np.int64]) -> FloatArray:
    """The number of free parameters of each family's conditional probability table, `[n_families]`."""
    cells = batch.cells(levels)
    return np.asarray(cells - cells / levels[batch.children])


def _bits(conditions: int, n_conditions: int) -> NDArray[np.bool_]:
    """Whether each condition is in the class `conditions`, `[n_conditions]`."""
    return np.array([bool(conditions >> u & 1) for u in range(n_conditions)], np.bool_)
