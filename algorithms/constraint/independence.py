"""χ² and G² tests of conditional independence from count tables, and χ² tests from noisy count tables.

`chi_square`: tests from exact counts (Wang, Ma & Wang 2023, §4.2).

`noisy_chi_square`: tests from counts with noise of a known variance in every cell (our own method). Let s² be the
variance, n the number of rows of a stratum, and p and q the shares of the levels of X and Y in the stratum. Let u be
the deviations of the cells v from their expected counts e = n p q, divided by √e. The stratum's statistic is
Σ (v − e)²/e = uᵀQu for the projection Q = (I − √p√pᵀ) ⊗ (I − √q√qᵀ). Under independence u has the covariance
I + s² diag(1/e) from sampling and noise. So the statistic is distributed as Σ a_i χ²_1 for the eigenvalues a_i of
A = Q + s² Q diag(1/e) Q. Its mean is tr A and its variance is 2 tr A²:

    tr A = dof + s²/n · K₁(p) K₁(q),    tr A² = dof + 2 s²/n · K₁(p) K₁(q) + s⁴/n² · K₂(p) K₂(q),
    K₁(p) = Σ 1/p − |X|,                K₂(p) = Σ 1/p² − 2 Σ 1/p + |X|².

The statistics of the strata are added with the weights dof / tr A, which are small if noise dominates the stratum. The
sum is approximated by the c·χ²_f with the same mean and variance (Satterthwaite 1946). Without noise this is the usual
test. Gaboardi et al. 2016 simulate the distribution instead.

Noisy counts may be negative. The test includes a level only if its noisy number of rows clearly exceeds the noise. This
is valid under the null hypothesis: independent variables are independent on any subset of their levels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, erfc, stdtr

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.coding import Blocks, log_residual_det
from ..statistics.count_tables import PAD, TableReader, Tables, offsets
from ..statistics.moments import ROUNDING
from .search import Results
from .subsets import Tests


def chi_square(
    counts: FloatArray, tables: Tables, cardinalities: NDArray[np.int64], tests: Tests, *, g_square: bool = False
) -> Results:
    """The p-values and strengths of `tests` from `counts`, the concatenated tables of `tables`.

    χ² = Σ_z Σ_xy (v_xyz − e)²/e with e = v_xz v_yz / v_z (Wang, Ma & Wang 2023, Eq. 2), or G² = 2 Σ v_xyz ln(v_xyz /
    e). A stratum has (|X_z| − 1)(|Y_z| − 1) degrees of freedom, counting the levels that occur in it; an empty stratum
    has none. Without any degree of freedom there is no evidence of dependence, and p = 1. The strength is Tschuprow's
    T², for G² computed with G² in place of χ².
    """
    begins = offsets(tables.sets, cardinalities)
    largest = int(cardinalities.max())
    statistic, dof, n = _statistics(
        counts, begins, cardinalities, tables.sets, tables.table_of, tests, largest, g_square
    )
    return Results(
        p=np.where(dof > 0, chdtrc(np.maximum(dof, 1), statistic), 1.0),
        strength=statistic / np.sqrt(np.maximum(dof, 1)) / np.maximum(n, 1),
    )


@njit(cache=True)
def _statistics(counts, begins, cardinalities, sets, table_of, tests, largest, g_square):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    statistic, dof, total = np.zeros(len(tests)), np.zeros(len(tests), np.int64), np.zeros(len(tests))
    margin_x, margin_y = np.empty(largest), np.empty(largest)
    width = sets.shape[1]
    digits, radices, strides = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64)
    for test in range(len(tests)):
        x, y, s = tests[test, 0], tests[test, 1], table_of[test]
        step, step_x, step_y, n_given, strata = 1, 0, 0, 0, 1
        for t in range(width - 1, -1, -1):
            v = sets[s, t]
            if v < 0:
                continue
            if v == x:
                step_x = step
            elif v == y:
                step_y = step
            else:
                digits[n_given], radices[n_given], strides[n_given] = 0, cardinalities[v], step
                n_given += 1
                strata *= cardinalities[v]
            step *= cardinalities[v]
        position = begins[s]
        for _ in range(strata):
            value, freedom, n = _stratum(
                counts, position, cardinalities[x], step_x, cardinalities[y], step_y, margin_x, margin_y, g_square
            )
            statistic[test] += value
            dof[test] += freedom
            total[test] += n
            for t in range(n_given):
                digits[t] += 1
                position += strides[t]
                if digits[t] < radices[t]:
                    break
                position -= radices[t] * strides[t]
                digits[t] = 0
    return statistic, dof, total


@njit(cache=True)
def _stratum(counts, position, n_x, step_x, n_y, step_y, margin_x, margin_y, g_square):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Statistic, degrees of freedom and number of rows of one two-way table within `counts`."""
    for a in range(n_x):
        margin_x[a] = 0.0
    for b in range(n_y):
        margin_y[b] = 0.0
    for a in range(n_x):
        for b in range(n_y):
            v = counts[position + a * step_x + b * step_y]
            margin_x[a] += v
            margin_y[b] += v
    n, levels_x, levels_y = 0.0, 0, 0
    for a in range(n_x):
        n += margin_x[a]
        levels_x += margin_x[a] > 0
    for b in range(n_y):
        levels_y += margin_y[b] > 0
    if levels_x < 2 or levels_y < 2:
        return 0.0, 0, n
    value = 0.0
    for a in range(n_x):
        if margin_x[a] > 0:
            for b in range(n_y):
                if margin_y[b] > 0:
                    v = counts[position + a * step_x + b * step_y]
                    expected = margin_x[a] * (margin_y[b] / n)
                    if not g_square:
                        value += (v - expected) ** 2 / expected
                    elif v > 0:
                        value += 2 * v * np.log(v / expected)
    return value, (levels_x - 1) * (levels_y - 1), n


MIN_NOISE_DEVIATIONS = 3.0
"""in each stratum, a level is included if its number of rows exceeds this number of standard deviations of the noise"""


@dataclass(frozen=True)
class Strata:
    """The test statistics of each stratum, `[n_strata]`; all but `rows` are 0 in a stratum without a test."""

    statistic: FloatArray
    dof: FloatArray
    mean: FloatArray
    """tr A, the mean of the statistic under independence"""
    square: FloatArray
    """tr A², half its variance"""
    rows: FloatArray


def noisy_chi_square(tables: TableReader, tests: Tests, variance: float) -> Results:
    """The p-values and strengths of `tests` from tables with noise of this `variance` in each cell.

    The strength is Tschuprow's T² minus the expected contribution of the noise. There may be no stratum in which two
    levels of X and two levels of Y have enough rows. In a test without Z, X or Y then counts as constant, and p = 1. In
    a test given Z, the noise may hide levels, so p = 0.
    """
    p, strength = np.where((tests[:, 2:] == PAD).all(axis=1), 1.0, 0.0), np.zeros(len(tests))
    for t, (x, y) in enumerate(tests[:, :2].tolist()):
        stratum_tests = strata(tables.strata(t, (x, y)), variance)
        dof = stratum_tests.dof.sum()
        if dof == 0:
            continue
        weight = np.divide(
            stratum_tests.dof, stratum_tests.mean, out=np.zeros(len(stratum_tests.dof)), where=stratum_tests.dof > 0
        )
        spread = float(weight**2 @ stratum_tests.square)
        p[t] = chdtrc(dof**2 / spread, weight @ stratum_tests.statistic * dof / spread)
        excess = (stratum_tests.statistic - stratum_tests.mean + stratum_tests.dof).sum()
        strength[t] = max(excess, 0.0) / np.sqrt(dof) / max(stratum_tests.rows.sum(), 1.0)
    return Results(p, strength)


def strata(tables: FloatArray, variance: float) -> Strata:
    """The test statistics of the strata `tables` `[n_strata, |X|, |Y|]` with noise of this `variance` in each cell."""
    _, n_x, n_y = tables.shape
    all_rows = np.maximum(tables.sum(axis=(1, 2)), 0.0)
    visible_x = tables.sum(axis=2) > MIN_NOISE_DEVIATIONS * np.sqrt(variance * n_y)
    visible_y = tables.sum(axis=1) > MIN_NOISE_DEVIATIONS * np.sqrt(variance * n_x)
    tables = tables * visible_x[:, :, None] * visible_y[:, None, :]
    margin_x, margin_y = tables.sum(axis=2), tables.sum(axis=1)
    usable = ((margin_x > 0) >= visible_x).all(axis=1) & ((margin_y > 0) >= visible_y).all(axis=1)
    usable &= (visible_x.sum(axis=1) > 1) & (visible_y.sum(axis=1) > 1)
    rows = np.where(usable, margin_x.sum(axis=1), 1.0)
    expected = margin_x[:, :, None] * margin_y[:, None, :] / rows[:, None, None]
    cells = usable[:, None, None] & visible_x[:, :, None] & visible_y[:, None, :]
    deviations = np.divide((tables - expected) ** 2, expected, out=np.zeros_like(tables), where=cells)
    (one_x, two_x), (one_y, two_y) = _moments(margin_x, visible_x, rows), _moments(margin_y, visible_y, rows)
    dof = (visible_x.sum(axis=1) - 1.0) * (visible_y.sum(axis=1) - 1.0)
    noise = variance / rows
    mean = dof + noise * one_x * one_y
    square = dof + 2 * noise * one_x * one_y + noise**2 * two_x * two_y
    statistic = deviations.sum(axis=(1, 2))
    statistic, dof, mean, square = (np.where(usable, values, 0.0) for values in (statistic, dof, mean, square))
    return Strata(statistic, dof, mean, square, all_rows)


def _moments(margin: FloatArray, visible: NDArray[np.bool_], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """K₁ and K₂ of the shares of the visible levels, `[n_strata]` each."""
    inverse = np.divide(rows[:, None], margin, out=np.zeros_like(margin), where=visible & (margin > 0))
    levels = visible.sum(axis=1)
    total = inverse.sum(axis=1)
    return total - levels, (inverse**2).sum(axis=1) - 2 * total + levels**2


# Tests of conditional independence from one sum of second moments, for continuous and mixed data.
#
# - Continuous data: Fisher's z test of the partial correlation.
# - Time series: Student's t test of the partial correlation, which Fisher's z test approximates.
# - Mixed data: the likelihood ratio test of degenerate Gaussian models, in which every variable has a block of coded
#   columns (`statistics/coding.py`). X and Y are independent given Z if λ = |R_XYZ||R_Z| / (|R_XZ||R_YZ|) is 1. The
#   test corresponds to the score of Andrews, Ramsey & Cooper 2019 (Wilks 1938).


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
