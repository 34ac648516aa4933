"""Conditional independence in mixed data: the likelihood ratio of degenerate Gaussian models, from one sum of moments.

With every variable a block of coded columns (`statistics/blocks.py`), X and Y are independent given Z if
λ = |R_XYZ||R_Z| / (|R_XZ||R_YZ|) is 1: the score of Andrews, Ramsey & Cooper 2019 as a test (Wilks 1938).
"""

import numpy as np
from numba import njit
from scipy.special import chdtrc

from ..statistics.blocks import Blocks, log_left
from ..statistics.count_tables import PAD
from .results import Results
from .subsets import Tests


def likelihood_ratio(blocks: Blocks, tests: Tests) -> Results:
    """Return the p-values of `tests`; the strength is √(1 − λ^(1/k)), k the fewer columns of the two: |r| where k = 1.

    −(n − |Z| − (|X| + |Y| + 1)/2) ln λ is close to χ² with |X||Y| degrees of freedom if X and Y are independent given Z
    (Bartlett 1938). A variable without columns is independent of all others.
    """
    widths = np.append(np.diff(blocks.first), 0)
    x, y = widths[tests[:, 0]], widths[tests[:, 1]]
    given = widths[np.where(tests[:, 2:] == PAD, len(widths) - 1, tests[:, 2:])].sum(axis=1)
    log_ratio = np.minimum(_log_ratios(blocks.R, blocks.first, np.ascontiguousarray(tests, np.int64)), 0.0)
    rows = np.maximum(blocks.rows - given - (x + y + 1) / 2, 0)
    free = x * y
    p = np.where(free > 0, chdtrc(np.maximum(free, 1), -rows * log_ratio), 1.0)
    strength = np.sqrt(-np.expm1(log_ratio / np.maximum(np.minimum(x, y), 1)))
    return Results(p=p, strength=strength)


@njit(cache=True)
def _log_ratios(R, first, tests):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return ln λ of each test: ln|R_YY·XZ| − ln|R_YY·Z|."""
    found = np.empty(len(tests))
    for t in range(len(tests)):
        size = 0
        for v in tests[t]:
            size += v != PAD
        found[t] = log_left(R, first, tests[t, 1], np.append(tests[t, 2:size], tests[t, 0]))
        found[t] -= log_left(R, first, tests[t, 1], tests[t, 2:size])
    return found
