"""Private count tables: every silo adds a share of discrete Gaussian noise to what it is asked to count (ours).

What is released: the sums of tables over the sets of variables that the server asks for, with noise of all silos. If
one row is replaced by any other, then in every table at most one count falls by one and another rises by one: the ℓ₂
sensitivity of an exchange is √(2m), m its number of tables, whatever these are. How many exchanges there are at most is
settled in advance, by the depth; each may cost the same part of the budget, so that more tables get more noise. Which
tables are asked for depends on noisy sums of earlier exchanges alone, and what the server makes of them costs nothing.

The levels of the variables are public, like the number of rows: who would not tell which labels occur in the rows must
declare all that may.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core.promise import Cost, Promise, ReplaceOne
from ..privacy.discrete_gaussian import discrete_gaussian
from ..privacy.noise import Bits, child
from ..privacy.shares import share_variance
from ..privacy.zcdp import distributed_gaussian_cost
from ..statistics.rows import Rows

PARTS = 64
"""variances are multiples of 1/PARTS"""


@dataclass(frozen=True)
class TablePlan:
    """What the budget comes to, from public numbers alone."""

    promise: Promise
    sure: int
    """shares of noise that are sure to be in a sum and unknown to who sees it"""
    each: Cost[ReplaceOne]
    """what one exchange may cost"""

    def variance(self, tables: int, cells: int) -> Fraction:
        """Return the variance of one silo's noise on each of the `cells` of so many `tables`."""
        variance = max(share_variance(sensitivity(tables), self.each, self.sure, PARTS), Fraction(1, 4))
        while self.each < self.cost(tables, cells, variance):
            variance += Fraction(1, PARTS)  # the sum of few small shares is not quite a discrete Gaussian
        return variance

    def cost(self, tables: int, cells: int, variance: Fraction) -> Cost[ReplaceOne]:
        """Return the price of the sum of the tables with this noise from every silo."""
        return distributed_gaussian_cost(sensitivity(tables), variance, self.sure, cells, ReplaceOne)


@dataclass(frozen=True)
class PrivateRows(Rows):
    """A silo's rows whose counts are to be private."""

    plan: TablePlan
    key: bytes = field(default=b"", repr=False)
    """from which the noise of this round is drawn"""


def sensitivity(tables: int) -> float:
    """Return the ℓ₂ sensitivity of so many count tables of one silo to the replacement of one row."""
    return math.nextafter(math.sqrt(2 * tables), math.inf)


def table_plan(promise: Promise, sure: int, exchanges: int) -> TablePlan:
    """Return the plan that keeps `promise` over so many `exchanges`, with so many shares of noise that are `sure`."""
    return TablePlan(promise, sure, promise.cost.portion(1, exchanges))


def noisy(counts: NDArray[np.unsignedinteger], tables: int, plan: TablePlan, key: bytes) -> NDArray[np.int64]:
    """Return the `counts` of so many tables with a silo's share of the noise."""
    if not len(counts):
        return counts.astype(np.int64)
    noise = discrete_gaussian(Bits(child(key, "count tables")), plan.variance(tables, len(counts)), len(counts))
    return np.asarray(counts.astype(np.int64) + noise)
