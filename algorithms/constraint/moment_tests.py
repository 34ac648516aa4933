"""Tests of conditional independence from one sum of second moments, for continuous and mixed data.

- Continuous data: Fisher's z test of the partial correlation.
- Time series: Student's t test of the partial correlation, which Fisher's z test approximates.
- Mixed data: the likelihood ratio test of degenerate Gaussian models, in which every variable has a block of coded
  columns (`statistics/coding.py`). X and Y are independent given Z if λ = |R_XYZ||R_Z| / (|R_XZ||R_YZ|) is 1. The
  test corresponds to the score of Andrews, Ramsey & Cooper 2019 (Wilks 1938).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, erfc, stdtr

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.coding import Blocks, log_residual_det
from ..statistics.count_tables import PAD
from ..statistics.moments import ROUNDING
from .search import Results
from .subsets import Tests


def fisher_z(n: int, correlations: FloatArray, tests: Tests, noise: float = 0.0) -> Results:
    """The p-values of `tests` from the correlations in n rows, and the strengths |r|.

    √(n − |z| − 3) atanh r is close to standard normal if the partial correlation is 0 (Fisher 1924). `noise` is the
    standard deviation of noise in the correlations. The conditioning variables amplify the variance of the noise
    (`_noise_amplification`). The amplified variance is added to the variance of atanh r.
    """
    r, variance, given = _partial_correlations(correlations, tests, noise)
    rows = np.maximum(n - given - 3, 0)
    z = np.sqrt(rows / (1 + rows * variance)) * np.arctanh(np.clip(np.abs(r), 0, 1 - 1e-15))
    return Results(p=erfc(z / np.sqrt(2)), strength=np.abs(r))


def student_t(freedom: int, correlations: FloatArray, tests: Tests) -> Results:
    """The p-values of `tests` and the strengths |r|, from correlations with `freedom` degrees of freedom.

    `freedom` is the number of rows minus the number of subtracted means. With f = freedom − 1 − |z|, r√(f/(1 − r²)) has
    Student's t distribution with f degrees of freedom if the partial correlation is 0 and the rows are Gaussian.
    Fisher's z approximates this test. p is 1 if f is below 1.
    """
    r, _, given = _partial_correlations(correlations, tests)
    f = freedom - 1 - given
    t = np.abs(r) * np.sqrt(np.maximum(f, 0) / np.maximum(1 - r**2, ROUNDING**2))
    return Results(p=np.where(f < 1, 1.0, 2 * stdtr(np.maximum(f, 1), -t)), strength=np.abs(r))


def _partial_correlations(
    correlations: FloatArray, tests: Tests, noise: float = 0.0
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """The partial correlation of each test, the variance that noise adds, and the number of conditioning variables."""
    r, variance = np.zeros(len(tests)), np.zeros(len(tests))
    sizes = (tests != PAD).sum(axis=1)
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        if size == 2:
            r[chosen], variance[chosen] = correlations[tests[chosen, 0], tests[chosen, 1]], noise**2
            continue
        precision = _precision(correlations, tests[chosen, :size])
        r[chosen] = _partial(precision)
        if noise:
            variance[chosen] = noise**2 * _noise_amplification(precision)
    return r, variance, sizes - 2


def _precision(correlations: FloatArray, tests: NDArray[np.int16]) -> FloatArray:
    """The (pseudo-)inverse of the correlations among the variables of each test, `[n_tests, size, size]`."""
    correlation_blocks = correlations[tests[:, :, None], tests[:, None, :]]
    try:
        return np.asarray(np.linalg.inv(correlation_blocks))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(correlation_blocks, hermitian=True))


def _partial(precision: FloatArray) -> FloatArray:
    """The partial correlation of the first two variables given the rest, `[n_tests]`."""
    scale = np.sqrt(np.abs(precision[:, 0, 0] * precision[:, 1, 1]))
    return np.asarray(np.divide(-precision[:, 0, 1], scale, out=np.zeros(len(scale)), where=scale > 0))


def _noise_amplification(precision: FloatArray) -> FloatArray:
    """The factor by which the variance of noise grows from correlations to the partial correlation, `[n_tests]`.

    The partial covariance is aᵀRb. The vector a is 1 at x and minus the regression weights of x at z, and b is the same
    for y. Noise in R adds |a|²|b|² times its own variance to the variance of aᵀRb. Both are then divided by the product
    of the two partial variances.
    """
    partial = np.linalg.pinv(precision[:, :2, :2], hermitian=True)
    weights = -precision[:, 2:, :2] @ partial
    norms = 1 + (weights**2).sum(axis=1)
    return np.asarray((norms / np.maximum(partial[:, [0, 1], [0, 1]], ROUNDING)).prod(axis=1))


def likelihood_ratio(blocks: Blocks, tests: Tests) -> Results:
    """The p-values and strengths of `tests`; |X|, |Y| and |Z| are the numbers of coded columns of X, Y and Z.

    −(n − |Z| − (|X| + |Y| + 1)/2) ln λ is close to χ² with |X||Y| degrees of freedom if X and Y are independent given Z
    (Bartlett 1938). The strength is √(1 − λ^(1/k)) for k = min(|X|, |Y|). A variable without columns is independent of
    all others.
    """
    widths = np.append(np.diff(blocks.first), 0)
    x, y = widths[tests[:, 0]], widths[tests[:, 1]]
    given_columns = widths[np.where(tests[:, 2:] == PAD, len(widths) - 1, tests[:, 2:])].sum(axis=1)
    log_ratio = np.minimum(_log_ratios(blocks.R, blocks.first, np.ascontiguousarray(tests, np.int64)), 0.0)
    rows = np.maximum(blocks.rows - given_columns - (x + y + 1) / 2, 0)
    dof = x * y
    p = np.where(dof > 0, chdtrc(np.maximum(dof, 1), -rows * log_ratio), 1.0)
    strength = np.sqrt(-np.expm1(log_ratio / np.maximum(np.minimum(x, y), 1)))
    return Results(p=p, strength=strength)


@njit(cache=True)
def _log_ratios(R, first, tests):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Ln λ of each test: ln|R_YY·XZ| − ln|R_YY·Z|."""
    ratios = np.empty(len(tests))
    for t in range(len(tests)):
        size = 0
        for v in tests[t]:
            size += v != PAD
        ratios[t] = log_residual_det(R, first, tests[t, 1], np.append(tests[t, 2:size], tests[t, 0]))
        ratios[t] -= log_residual_det(R, first, tests[t, 1], tests[t, 2:size])
    return ratios
