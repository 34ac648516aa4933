"""The order of variables by least variance given all that came before: Algorithm 1 of Chen, Drton & Wang 2019."""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray


def top_down(covariance: FloatArray, precedes: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], FloatArray]:
    """Return each variable's place, `[d]`, and its variance given all before it, `[d]`, least variance first.

    None comes before one that `precedes` it, `[d, d]`. The variances are Schur complements, which one elimination keeps
    up to date: O(d³) in all.
    """
    d = len(covariance)
    before = np.zeros((d, d), bool) if precedes is None else precedes
    left, place, variances = covariance.copy(), np.full(d, -1, dtype=np.int64), np.empty(d)
    for at in range(d):
        may_be_next = (place < 0) & ~before[place < 0].any(axis=0)
        given = np.where(may_be_next, np.diag(left), np.inf)
        j = int(np.argmin(given))
        place[j], variances[j] = at, given[j]
        left -= np.outer(left[:, j], left[j]) / left[j, j]
    return place, variances
