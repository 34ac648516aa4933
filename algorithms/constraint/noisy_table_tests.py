"""χ² tests of conditional independence from count tables with noise of a known variance in every cell (our own method).

Let s² be the variance, n the number of rows of a stratum, and p and q the shares of the levels of X and Y in the
stratum. Let u be the deviations of the cells v from their expected counts e = n p q, divided by √e. The stratum's
statistic is Σ (v − e)²/e = uᵀQu for the projection Q = (I − √p√pᵀ) ⊗ (I − √q√qᵀ). Under independence u has the
covariance I + s² diag(1/e) from sampling and noise. So the statistic is distributed as Σ a_i χ²_1 for the eigenvalues
a_i of A = Q + s² Q diag(1/e) Q. Its mean is tr A and its variance is 2 tr A²:

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
from scipy.special import chdtrc

from ..core.schema import FloatArray
from ..statistics.count_tables import PAD, TableReader
from .search import Results
from .subsets import Tests

MIN_NOISE_DEVIATIONS = 3.0
"""in each stratum, a level is included if its number of rows exceeds this number of standard deviations of the noise"""


@dataclass(frozen=True)
class StratumTests:
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
    a test given Z, the noise may hide levels, so the pair must not be separated: p = 0.
    """
    p, strength = np.where((tests[:, 2:] == PAD).all(axis=1), 1.0, 0.0), np.zeros(len(tests))
    for t, (x, y) in enumerate(tests[:, :2].tolist()):
        by_stratum = stratum_tests(tables.strata(t, (x, y)), variance)
        dof = by_stratum.dof.sum()
        if dof == 0:
            continue
        weight = np.divide(by_stratum.dof, by_stratum.mean, out=np.zeros(len(by_stratum.dof)), where=by_stratum.dof > 0)
        spread = float(weight**2 @ by_stratum.square)
        p[t] = chdtrc(dof**2 / spread, weight @ by_stratum.statistic * dof / spread)
        excess = (by_stratum.statistic - by_stratum.mean + by_stratum.dof).sum()
        strength[t] = max(excess, 0.0) / np.sqrt(dof) / max(by_stratum.rows.sum(), 1.0)
    return Results(p, strength)


def stratum_tests(tables: FloatArray, variance: float) -> StratumTests:
    """The test statistics of the strata `tables` `[n_strata, |X|, |Y|]` with noise of this `variance` in each cell."""
    _, n_x, n_y = tables.shape
    all_rows = np.maximum(tables.sum(axis=(1, 2)), 0.0)
    visible_x = tables.sum(axis=2) > MIN_NOISE_DEVIATIONS * np.sqrt(variance * n_y)
    visible_y = tables.sum(axis=1) > MIN_NOISE_DEVIATIONS * np.sqrt(variance * n_x)
    tables = tables * visible_x[:, :, None] * visible_y[:, None, :]
    margin_x, margin_y = tables.sum(axis=2), tables.sum(axis=1)
    usable = (~visible_x | (margin_x > 0)).all(axis=1) & (~visible_y | (margin_y > 0)).all(axis=1)
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
    return StratumTests(statistic, dof, mean, square, all_rows)


def _moments(margin: FloatArray, visible: NDArray[np.bool_], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """K₁ and K₂ of the shares of the visible levels, `[n_strata]` each."""
    inverse = np.divide(rows[:, None], margin, out=np.zeros_like(margin), where=visible & (margin > 0))
    levels = visible.sum(axis=1)
    total = inverse.sum(axis=1)
    return total - levels, (inverse**2).sum(axis=1) - 2 * total + levels**2
