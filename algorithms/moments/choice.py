"""Equal error variances or not: which of two fits the second moments bear out (ours).

Data with equal error variances have one DAG; without that assumption, second moments tell a DAG from another only up to
its Markov equivalence class. So the DAG is claimed only where the data speak for it, in one of two ways:

- its fit with *one* variance scores better, prices included, than that of the class with a variance for each variable;
- or the variances that it leaves are so near each other that sampling hardly explains the rest: their spread D = ln of
  the mean − mean of the ln is below `NEAR`, and below `OF_MARGINAL` of the spread M of the variables' own variances.
  Standardised columns have M = 0 and never pass this way.
"""

from dataclasses import dataclass

import numpy as np

from ..core.schema import FloatArray
from ..score.order_starts import Found
from .equal_errors import LinearFit, spread_of

NEAR, OF_MARGINAL = 0.05, 0.1


@dataclass(frozen=True)
class VarianceEvidence:
    """What speaks for and against equal error variances, and what was chosen."""

    equal: bool
    spread: float
    """D: how far the error variances of the fit with equal ones are from being equal, 0 if they are"""
    marginal: float
    """M: the same of the variables' own variances"""
    gain: float
    """by how much the fit with equal variances scores better than that without; NaN where the second was not needed"""


def near_equal(S: FloatArray, fit: LinearFit) -> VarianceEvidence:
    """Return the evidence that needs no second fit: how near the error variances of `fit` are to each other."""
    spread, marginal = spread_of(fit.variances), spread_of(np.diag(S))
    return VarianceEvidence(spread < NEAR and spread < OF_MARGINAL * marginal, spread, marginal, float("nan"))


def compared(near: VarianceEvidence, fit: LinearFit, free: Found, rows: int) -> VarianceEvidence:
    """Return the evidence with that of the second fit, whose variances are `free`."""
    d = len(fit.variances)
    likelihood_free = free.score - 0.5 * rows * d * (np.log(2 * np.pi) + 1) - 0.5 * d * np.log(rows)
    gain = fit.score - float(likelihood_free)
    return VarianceEvidence(near.equal or gain > 0, near.spread, near.marginal, gain)
