"""Gaussian BIC of a linear regression of each variable on its parents, from second moments alone.

−n/2 (ln 2πσ² + 1) − ½ ln n (k + 2) with k parents, an intercept and the residual variance σ², the Schur complement of
the parents in the covariance about the mean. Moments of several silos add up, so the pooled score takes one exchange.
"""

import math

import numpy as np
from numba import njit

from ..core.schema import FloatArray
from ..statistics.moments import covariance
from .families import Batch

_FLAT = 1e-12
"""a residual variance below this share of the variance is rounding: the parents determine the variable"""


def score_moments(moments: FloatArray, d: int, batch: Batch) -> FloatArray:
    """Return the score of every family of `batch` on the rows that the (summed) `moments` are of."""
    n, S = covariance(moments, d)
    return score_covariance(n, S, batch)


def score_covariance(n: int, S: FloatArray, batch: Batch) -> FloatArray:
    """Return the score of every family of `batch` on n rows with the covariance `S` `[d, d]`."""
    return np.asarray(_score(n, S, batch.first, batch.members))


@njit(cache=True)
def _score(n, S, first, members):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.empty(len(first) - 1)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        variance = _residual_variance(S, child, parents)
        scores[m] = -0.5 * n * (math.log(2 * math.pi * variance) + 1) - 0.5 * math.log(n) * (len(parents) + 2)
    return scores


@njit(cache=True)
def _residual_variance(S, child, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the variance of `child` given `parents`, by a Cholesky factor of their covariance, row by row.

    A parent that the others determine adds nothing.
    """
    k = len(parents)
    L = np.zeros((k + 1, k + 1))
    for i in range(k + 1):
        v = child if i == k else parents[i]
        for j in range(i):
            dot = S[v, parents[j]]
            for t in range(j):
                dot -= L[i, t] * L[j, t]
            L[i, j] = dot / L[j, j] if L[j, j] > 0 else 0.0
        left = S[v, v]
        for t in range(i):
            left -= L[i, t] * L[i, t]
        if i == k:
            return max(left, _FLAT * S[v, v], 1e-300)
        L[i, i] = math.sqrt(left) if left > _FLAT * S[v, v] else 0.0
    return 0.0
