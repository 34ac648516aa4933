"""Tests for curved effects in a silo's rows, given a linear graph, after Ramsey's RESET, 1969.

There are two figures for each variable. Both are shares of the variable's residual, and would be zero if all effects
were linear:

- The first is the share that the squared prediction and the cubes of the parents explain, beyond a linear regression on
  the silo's own rows. The square alone misses effects that saturate, such as tanh.
- The second is the largest share that the square of a nonadjacent variable explains. An effect without a linear part,
  such as x² of a symmetric x, leaves no edge in a linear graph. Only variables nearly uncorrelated with the residual
  are tested. In a linear model with skewed errors, the square of a correlated variable could explain a share because
  the variable is an effect of the child.

A share that is not significant counts as zero. The test is a score test with heteroscedasticity-consistent variances of
the products of residual and curve (White 1980). So the test is valid for any error distribution, and a few outlying
rows cannot make a share significant. The level is divided by the number of tests.

Two things differ in time series. If the graph lacks a slow cause, the residual is slow, and slow curves are related to
it by chance. So the statistic is divided by the long-run variance ratio of the products (Newey & West 1987). For slow
parents, the variances of the products are imprecise. So the bound is Hotelling's with the effective number of windows.

Residuals and the causes of curves are limited to ±`BOUND` standard deviations. Without this limit, a single row could
determine the share if tails are heavy.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.moments import MAX_UNJOINED_CORRELATION, Table, sum_over_chunks
from .change import effective_windows, hotelling_bound, long_run_ratio

BOUND = 4.0
"""limit of residuals, and of the causes of curves, in standard deviations"""
MAX_ENLARGEMENT = 1.2
"""maximum ratio of the bound for slow series to the χ² bound; their statistics are already reduced by the long-run
ratio"""
MIN_ROWS = 30
"""minimum number of complete rows for a residual"""


def score_statistic(score: FloatArray, products: FloatArray) -> float:
    """The statistic of a score test, about χ² with k degrees of freedom if the expectation of each row's score is zero.

    `score` `[k]` is the sum of the rows' scores; `products` `[k·k]` is the sum of their outer products (White 1980).
    """
    size = len(score)
    return float(score @ np.linalg.pinv(products.reshape(size, size), rcond=1e-9, hermitian=True) @ score)


def chi_square_bound(freedom: int, probability: float) -> float:
    """The value that a χ² variable with `freedom` degrees of freedom exceeds with this `probability`."""
    from scipy.special import chdtri  # imported late: most processes need no quantiles

    return float(chdtri(freedom, probability))


@dataclass(frozen=True)
class FittedFamily:
    """A variable, its parents, the parents whose cubes are used, and their weights, in standard deviations."""

    child: int
    parents: NDArray[np.intp]
    cubed: NDArray[np.intp]
    weights: FloatArray
    deviation: float
    """the standard deviation of the residual"""

    def residual(self, z: FloatArray) -> FloatArray:
        """The residual in the rows `z` `[n, d]`, within its bounds."""
        left = z[:, self.child] - z[:, self.parents] @ self.weights
        return np.asarray(np.clip(left, -BOUND * self.deviation, BOUND * self.deviation))

    @property
    def columns(self) -> int:
        """The number of columns of the family's design: parents, the residual, the squared prediction, cubes."""
        return len(self.parents) + 2 + len(self.cubed)


def curvature(
    table: Table,
    means: FloatArray,
    S: FloatArray,
    parents: NDArray[np.bool_],
    numbers: NDArray[np.bool_],
    false_alarms: float,
    inflation: FloatArray | float = 1.0,
    *,
    variables: int = 0,
) -> FloatArray:
    """By variable, the larger of the two shares of its residual that curves explain, `[d]`; zero unless significant.

    `table` `[n_rows, d]` is centred at `means`; predictions come from regressions by the moments `S` of all silos.
    `parents[i, j]` says whether i may be a cause of j, and `numbers` which columns are not indicators of levels. Rows
    in which a required cell is empty are left out. If all effects are linear, the nominal probability that any share is
    above zero is `false_alarms`. `inflation` `[d]` multiplies the bounds of the statistics of each residual. If
    `variables` is not 0, rows are windows of this number of variables, which may be autocorrelated; a table in memory
    is then in the order of time.
    """
    inflated = np.broadcast_to(inflation, len(S))
    scales = np.sqrt(np.maximum(np.diag(S), 1e-300))
    R = S / np.outer(scales, scales)
    families = [_fitted(R, int(j), parents, numbers) for j in np.flatnonzero(numbers)]
    z = (table - means) / scales if variables and isinstance(table, np.ndarray) else None
    found = np.zeros(len(S))
    with_parents = [one for one in families if len(one.parents)]
    if with_parents:
        sums = sum_over_chunks(table, lambda rows: _family_sums((rows - means) / scales, with_parents))
        ends = np.cumsum([1 + one.columns + one.columns**2 for one in with_parents])
        bent = [_bent_share(own, one) for own, one in zip(np.split(sums, ends[:-1]), with_parents, strict=True)]
        tested = [(one, share) for one, share in zip(with_parents, bent, strict=True) if share.value > 0]
        if tested:
            spread = sum_over_chunks(table, lambda rows: _score_sums((rows - means) / scales, tested))
            ends = np.cumsum([len(share.score) ** 2 for _, share in tested])
            level = 0.5 * false_alarms / len(families)
            for (one, share), own in zip(tested, np.split(spread, ends[:-1]), strict=True):
                windows = effective_windows(table.shape[0], S, one.parents, variables) if variables else math.inf
                bound = inflated[one.child] * _bound(len(share.score), windows, level)
                statistic = score_statistic(share.score, own)
                if z is not None and statistic > bound:
                    statistic /= long_run_ratio(_scores(z, one, share))
                found[one.child] = share.value if statistic > bound else 0.0
    tested_pairs = _unjoined(R, families, parents | parents.T, numbers)
    if tested_pairs.any():
        pairs = sum_over_chunks(table, lambda rows: _pair_sums((rows - means) / scales, families))
        level = 0.5 * false_alarms / tested_pairs.sum()
        bounds = inflated * _pair_bounds(table.shape[0], S, variables, level)[:, None]
        found = np.maximum(found, _significant_shares(pairs, tested_pairs, bounds, families, z))
    return found


def _bound(freedom: int, windows: float, probability: float) -> float:
    """The bound of a statistic whose variances are estimated from this effective number of independent `windows`."""
    if math.isinf(windows):
        return chi_square_bound(freedom, probability)
    plain = chi_square_bound(freedom, probability)
    return min(hotelling_bound(freedom, windows, probability), MAX_ENLARGEMENT * plain)


def _pair_bounds(rows: int, S: FloatArray, variables: int, level: float) -> FloatArray:
    """The bounds of the statistics of the square of each column, `[d]`, for this number of `rows`."""
    windows = [effective_windows(rows, S, np.array([i]), variables) if variables else math.inf for i in range(len(S))]
    return np.array([_bound(1, one, level) for one in windows])


def _fitted(R: FloatArray, j: int, parents: NDArray[np.bool_], numbers: NDArray[np.bool_]) -> FittedFamily:
    """The regression of j on its `parents` by the correlations `R`."""
    of = np.flatnonzero(parents[:, j])
    weights = np.linalg.lstsq(R[np.ix_(of, of)], R[of, j], rcond=None)[0]
    deviation = np.sqrt(max(R[j, j] - weights @ R[of, j], 1e-12))
    return FittedFamily(j, of, np.flatnonzero(numbers[of]), weights, float(deviation))


def _significant_shares(
    pairs: FloatArray,
    tested: NDArray[np.bool_],
    bounds: FloatArray,
    families: list[FittedFamily],
    z: FloatArray | None,
) -> FloatArray:
    """By variable, the largest significant share of the `tested` pairs `[d, d]`, `[d]`.

    For time series in memory, `z` has the rows in the order of time.
    """
    shares, statistics = _square_shares(pairs)
    significant = tested & (statistics > bounds)
    if z is not None:
        significant &= statistics > bounds * _pair_ratios(z, families, significant)
    return np.asarray(np.where(significant, shares, 0.0).max(axis=0))


def _design(z: FloatArray, family: FittedFamily, *, complete: bool) -> FloatArray:
    """The design of a family in its complete rows: parents, the residual, the squared prediction, cubes."""
    rows = z if complete else z[~np.isnan(z[:, [*family.parents, family.child]]).any(axis=1)]
    causes = rows[:, family.parents]
    limited = np.clip(causes, -BOUND, BOUND)
    curves = (limited @ family.weights) ** 2, limited[:, family.cubed] ** 3
    return np.column_stack([causes, family.residual(rows), *curves])


def _family_sums(z: FloatArray, families: list[FittedFamily]) -> FloatArray:
    """For each family, the number of its complete rows, and the sums and products of its design, concatenated."""
    every, complete = [], not np.isnan(z.sum())
    for one in families:
        design = _design(z, one, complete=complete)
        every += [[len(design)], design.sum(axis=0), (design.T @ design).ravel()]
    return np.concatenate(every)


@dataclass(frozen=True)
class CurvedShare:
    """The share of a residual that curves explain, with the sums for its test."""

    value: float
    means: FloatArray
    """the means of the columns of the design"""
    slopes: FloatArray
    """the slopes of residual and curves on the parents, `[n_parents, 1 + n_curves]`"""
    score: FloatArray
    """the sums of the products of residual and curves, given the parents, `[n_curves]`"""


def _bent_share(sums: FloatArray, family: FittedFamily) -> CurvedShare:
    """The share of the child's residual that the square and the cubes explain, minus its expectation by chance."""
    m, k, n = family.columns, len(family.parents), sums[0]
    nothing = CurvedShare(0.0, np.empty(0), np.empty((0, 0)), np.empty(0))
    if n < MIN_ROWS or n < 2 * m:
        return nothing
    means = sums[1 : 1 + m] / n
    C = sums[1 + m :].reshape(m, m) / n - np.outer(means, means)
    slopes = np.linalg.lstsq(C[:k, :k], C[:k, k:], rcond=None)[0]
    left = C[k:, k:] - C[k:, :k] @ slopes
    if left[0, 0] <= 1e-9 * max(C[k, k], 1e-300):
        return nothing
    explained = left[0, 1:] @ np.linalg.lstsq(left[1:, 1:], left[1:, 0], rcond=1e-9)[0]
    return CurvedShare(float(explained / left[0, 0] - (m - k - 1) / n), means, slopes, n * left[0, 1:])


def _score_sums(z: FloatArray, tested: list[tuple[FittedFamily, CurvedShare]]) -> FloatArray:
    """For each tested family, the sums of the products of its rows' scores, concatenated."""
    scores = [_scores(z, one, share) for one, share in tested]
    return np.concatenate([(own.T @ own).ravel() for own in scores])


def _scores(z: FloatArray, family: FittedFamily, share: CurvedShare) -> FloatArray:
    """The scores of the complete rows: products of the residual and the curves given the parents, `[n, n_curves]`."""
    known = np.concatenate([family.parents, [family.child]])
    design, k = _design(z, family, complete=not np.isnan(z[:, known].sum())) - share.means, len(family.parents)
    left = design[:, k:] - design[:, :k] @ share.slopes
    return np.asarray(left[:, 1:] * left[:, :1])


def _pair_ratios(z: FloatArray, families: list[FittedFamily], pairs: NDArray[np.bool_]) -> FloatArray:
    """The long-run ratios of the products of the square of i and the residual of j, `[d, d]`; 1 outside `pairs`."""
    ratios = np.ones(pairs.shape)
    for one in families:
        residual = one.residual(z)
        for i in np.flatnonzero(pairs[:, one.child]):
            both = np.column_stack([np.clip(z[:, i], -BOUND, BOUND) ** 2, residual])
            both = both[~np.isnan(both).any(axis=1)]
            both -= both.mean(axis=0)
            ratios[i, one.child] = long_run_ratio(both[:, :1] * both[:, 1:])
    return ratios


def _pair_sums(z: FloatArray, families: list[FittedFamily]) -> FloatArray:
    """The sums of 1, a, b, a², b², ab, a²b, ab², a²b² over complete rows, `[9, d, d]`.

    Here a is the square of i, and b is the residual of j.
    """
    a, b = np.clip(z, -BOUND, BOUND) ** 2, np.zeros_like(z)
    for one in families:
        b[:, one.child] = one.residual(z)
    has_a, has_b = (~np.isnan(one) for one in (a, b))
    a, b = np.where(has_a, a, 0.0), np.where(has_b, b, 0.0)
    powers_a, powers_b = (has_a * 1.0, a, a * a), (has_b * 1.0, b, b * b)
    return np.stack([powers_a[i].T @ powers_b[j] for i, j in POWERS])


POWERS = ((0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1), (2, 1), (1, 2), (2, 2))
"""the powers of a and b in the sums over pairs"""


def _square_shares(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The squared correlations of squares and residuals, minus their expectation by chance, and their statistics.

    Both are `[d, d]`.
    """
    rows = np.maximum(sums[0], 1)
    a, b, aa, bb, ab, aab, abb, aabb = sums[1:] / rows
    both, of_a, of_b = ab - a * b, aa - a * a, bb - b * b
    known = (sums[0] >= MIN_ROWS) & (of_a > 1e-9 * aa) & (of_b > 1e-9 * bb)
    shares = np.divide(both**2, of_a * of_b, out=np.zeros_like(both), where=known) - 1 / rows
    # The mean of (a − ā)²(b − b̄)², from the means of the powers.
    spread = aabb - 2 * b * aab - 2 * a * abb + b * b * aa + a * a * bb + 4 * a * b * ab - 3 * a * a * b * b
    known &= spread > 1e-12 * of_a * of_b
    statistics = np.divide(rows * both**2, spread, out=np.zeros_like(both), where=known)
    return np.where(known, shares, 0.0), statistics


def _unjoined(
    R: FloatArray, families: list[FittedFamily], joined: NDArray[np.bool_], numbers: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The pairs (i, j) for which the square of i is tested in the residual of j, `[d, d]`."""
    residual_map = np.eye(len(R))
    for one in families:
        residual_map[one.parents, one.child] -= one.weights
    both = R @ residual_map
    variances = np.maximum(np.einsum("ij,ij->j", residual_map, both), 1e-12)
    tested = both**2 < MAX_UNJOINED_CORRELATION**2 * variances
    return np.asarray(tested & ~joined & ~np.eye(len(R), dtype=np.bool_) & numbers & numbers[:, None])


def rank_inflation(S: FloatArray, parents: NDArray[np.bool_], ranked: NDArray[np.bool_]) -> FloatArray:
    """By variable, an upper bound on the factor by which normal scores enlarge the variance of a silo's weights, `[d]`.

    Each silo ranks its own n cells, so the map from a column to scores differs between silos, with a standard deviation
    of about 1/√n. This adds about (1 + Σ w²)/n to a residual variance v, and (1 + Σ w²)/v to n times the gain of own
    weights or curves. Only `ranked` columns count.
    """
    inflation = np.ones(len(S))
    for j in np.flatnonzero(parents.any(axis=0) & ranked.any()):
        pa = np.flatnonzero(parents[:, j])
        w = np.linalg.lstsq(S[np.ix_(pa, pa)], S[pa, j], rcond=None)[0]
        left = max(S[j, j] - w @ S[pa, j], 1e-9 * max(S[j, j], 1e-300))
        inflation[j] += (ranked[j] * S[j, j] + (ranked[pa] * w**2) @ np.diag(S)[pa]) / left
    return inflation
