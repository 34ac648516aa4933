"""What a privacy budget will buy, from public numbers alone: before anything is spent.

All in units in which every variable has the mean square 1. A second moment S_ij carries the sampling error 1/√n of all
n rows and the noise of its release; the weight of an edge carries about that error over the variance that the parent's
other relatives leave it, `LEFT`. What is likely to be found must stand out from the d(d − 1)/2 pairs that chance has.
"""

import math
from dataclasses import dataclass

# The share of a variable's variance that its relatives leave unexplained, in sparse graphs of the kind measured here.
LEFT = 0.3


@dataclass(frozen=True)
class Forecast:
    """What to expect of one algorithm."""

    algorithm: str
    noise: float
    """standard deviation of the noise in the second moments that are learned from"""
    weight_error: float
    smallest: float
    """the smallest weight likely to be found, the threshold τ apart"""


def of_moments(algorithm: str, d: int, rows: int, releases: int, clip: float, rho: float) -> Forecast:
    """Return the forecast for second moments of so many `rows` in all, released with cost ρ by so many `releases`.

    One release is a sum that all silos hide together; with one a silo, each of n/P rows, the noise of the mean is √P
    times that of a single sum.
    """
    entry = clip * d * math.sqrt(releases) / (rows * math.sqrt(2 * rho)) if rho else 0.0
    return forecast(algorithm, d, rows, entry)


def of_steps(algorithm: str, d: int, rows: int, silos: int, reach: float, steps: int, rho: float) -> Forecast:
    """Return the forecast for weights that take private steps, `steps` in all, in each of `silos` silos.

    `reach` is the bound on a record's part in a gradient: the mean over the silos of the last steps is what is kept.
    """
    return forecast(algorithm, d, rows, 2 * reach * math.sqrt(silos * steps) / (rows * math.sqrt(2 * rho)))


def forecast(algorithm: str, d: int, rows: int, noise: float) -> Forecast:
    """Return what a noise of this standard deviation in S comes to."""
    error = math.hypot(noise, 1 / math.sqrt(rows)) / LEFT
    return Forecast(algorithm, noise, error, error * math.sqrt(2 * math.log(max(d * (d - 1), 2))))
