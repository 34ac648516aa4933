"""Private count tables: every silo adds a share of discrete Gaussian noise to its counts (our own method).

The release is the summed tables over the sets of variables that the server requests, with the noise of all silos. If
one row is replaced, at most one count in every table falls by one and another rises by one: the ℓ₂ sensitivity of an
exchange with m tables is √(2m) for any tables. The depth of the search bounds the number of exchanges in advance.
Each exchange may spend the same part of the budget, so an exchange with more tables has more noise. The choice of
tables depends only on noisy sums of earlier exchanges, and the server's computations are post-processing.

The levels of the variables are public, like the number of rows. To hide which labels occur in the rows, declare all
possible labels.
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

VARIANCE_PARTS = 64
"""variances are multiples of 1/VARIANCE_PARTS"""


@dataclass(frozen=True)
class TablePlan:
    """The plan of the privacy budget, computed from public numbers only."""

    promise: Promise
    certain_shares: int
    """number of noise shares that are certain to be in a sum and unknown to its observers"""
    exchange_cost: Cost[ReplaceOne]
    """the privacy cost of one exchange"""

    def variance(self, tables: int, cells: int) -> Fraction:
        """The variance of one silo's noise in each cell, if `tables` tables have `cells` cells together."""
        variance = max(
            share_variance(sensitivity(tables), self.exchange_cost, self.certain_shares, VARIANCE_PARTS), Fraction(1, 4)
        )
        while self.exchange_cost < self.cost(tables, cells, variance):
            # A sum of discrete Gaussians is not exactly a discrete Gaussian, so its cost can be a little higher.
            variance += Fraction(1, VARIANCE_PARTS)
        return variance

    def cost(self, tables: int, cells: int, variance: Fraction) -> Cost[ReplaceOne]:
        """The cost of the summed tables with this noise from every silo."""
        return distributed_gaussian_cost(sensitivity(tables), variance, self.certain_shares, cells, ReplaceOne)


@dataclass(frozen=True)
class PrivateRows(Rows):
    """A silo's rows for private counts."""

    plan: TablePlan
    key: bytes = field(default=b"", repr=False)
    """the key of this round's noise"""


def sensitivity(tables: int) -> float:
    """The ℓ₂ sensitivity of `tables` count tables of one silo when one row is replaced, √(2 tables), rounded up."""
    return math.nextafter(math.sqrt(2 * tables), math.inf)


def table_plan(promise: Promise, certain_shares: int, exchanges: int) -> TablePlan:
    """The plan that keeps `promise` over `exchanges` exchanges (`certain_shares`: see `TablePlan`)."""
    return TablePlan(promise, certain_shares, promise.cost.portion(1, exchanges))


def add_noise(counts: NDArray[np.unsignedinteger], tables: int, plan: TablePlan, key: bytes) -> NDArray[np.int64]:
    """The `counts` of `tables` count tables with the silo's share of the noise."""
    if not len(counts):
        return counts.astype(np.int64)
    noise = discrete_gaussian(Bits(child_key(key, "count tables")), plan.variance(tables, len(counts)), len(counts))
    return np.asarray(counts.astype(np.int64) + noise)
