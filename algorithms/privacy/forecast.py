"""What a privacy budget will buy, from public numbers alone: before anything is spent.

All in units in which every variable has the mean square 1. A second moment S_ij carries the sampling error 1/√n of all
n rows and the noise of its release; the weight of an edge carries about that error over the variance that the parent's
other relatives leave it, `LEFT`. What is likely to be found must stand out from the d(d − 1)/2 pairs that chance has.
"""

import math
from dataclasses import dataclass

# The share of a variable's variance that its relatives leave unexplained, and what drawing long rows in adds to the
# error of a weight, as measured on sparse graphs of 10 to 50 variables: true there within a factor of two.
LEFT = 0.3
DRAWN_IN = 0.025


@dataclass(frozen=True)
class Forecast:
    """What to expect of one algorithm."""

    algorithm: str
    noise: float
    """standard deviation of the noise in the second moments, or in the steps of weights, that are learned from"""
    weight_error: float
    smallest: float
    """the smallest weight likely to be found, the threshold τ apart"""


def forecast(algorithm: str, d: int, rows: int, noise: float) -> Forecast:
    """Return what a noise of this standard deviation in S comes to."""
    error = math.hypot(noise / LEFT, 1 / math.sqrt(rows) / LEFT, DRAWN_IN)
    return Forecast(algorithm, noise, error, error * math.sqrt(2 * math.log(max(d * (d - 1), 2))))
