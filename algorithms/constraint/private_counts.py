"""Private count tables: every silo adds a share of discrete Gaussian noise to its counts (ours).

What is released: the summed tables over the sets of variables that the server asks for, with the noise of all silos. If
one row is replaced, at most one count in every table falls by one and another rises by one: the ℓ₂ sensitivity of an
exchange with m tables is √(2m), whatever the tables are. The depth of the search bounds the number of exchanges in
advance; each may cost the same part of the budget, so an exchange with more tables gets more noise. Which tables are
asked for depends only on noisy sums of earlier exchanges, and what the server computes from them costs nothing.

The levels of the variables are public, like the number of rows: whoever wants to hide which labels occur in the rows
must declare all labels that could.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core.promise import Cost, Promise, ReplaceOne
from ..privacy.discrete_gaussian import Bits, child_key, discrete_gaussian
from ..privacy.zcdp import distributed_gaussian_cost, share_variance
from ..statistics.rows import Rows

PARTS = 64
"""variances are multiples of 1/PARTS"""


@dataclass(frozen=True)
class TablePlan:
    """How the privacy budget is spent, from public numbers alone."""

    promise: Promise
    sure: int
    """noise shares that are certain to be in a sum and unknown to whoever sees it"""
    each: Cost[ReplaceOne]
    """what one exchange may cost"""

    def variance(self, tables: int, cells: int) -> Fraction:
        """The variance of one silo's noise in each cell of this many `tables` with `cells` cells."""
        variance = max(share_variance(sensitivity(tables), self.each, self.sure, PARTS), Fraction(1, 4))
        while self.each < self.cost(tables, cells, variance):
            variance += Fraction(1, PARTS)  # a sum of few small shares is not exactly a discrete Gaussian
        return variance

    def cost(self, tables: int, cells: int, variance: Fraction) -> Cost[ReplaceOne]:
        """The cost of the summed tables with this noise from every silo."""
        return distributed_gaussian_cost(sensitivity(tables), variance, self.sure, cells, ReplaceOne)


@dataclass(frozen=True)
class PrivateRows(Rows):
    """A silo's rows whose counts are to be private."""

    plan: TablePlan
    key: bytes = field(default=b"", repr=False)
    """from which the noise of this round is drawn"""


def sensitivity(tables: int) -> float:
    """The ℓ₂ sensitivity of this many count tables of one silo when one row is replaced."""
    return math.nextafter(math.sqrt(2 * tables), math.inf)


def table_plan(promise: Promise, sure: int, exchanges: int) -> TablePlan:
    """The plan that keeps `promise` over `exchanges` exchanges when `sure` noise shares are certain."""
    return TablePlan(promise, sure, promise.cost.portion(1, exchanges))


def noisy(counts: NDArray[np.unsignedinteger], tables: int, plan: TablePlan, key: bytes) -> NDArray[np.int64]:
    """The `counts` of this many `tables` with a silo's share of the noise."""
    if not len(counts):
        return counts.astype(np.int64)
    noise = discrete_gaussian(Bits(child_key(key, "count tables")), plan.variance(tables, len(counts)), len(counts))
    return np.asarray(counts.astype(np.int64) + noise)
