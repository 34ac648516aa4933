"""Curved effects that a linear graph leaves in a silo's rows (ours, after Ramsey's RESET, 1969).

Two figures by variable, each the share of a residual that would be zero if all effects were linear:

- with parents: the share that the squared prediction and the cubes of the parents explain, beyond a linear regression
  on the silo's own rows. The square alone misses effects that saturate, such as tanh.
- for the variables that are not joined to it: the largest share that the square of one of them explains. An effect
  without a linear part, such as x² of a symmetric x, leaves no edge in a linear graph. Only variables nearly
  uncorrelated with the residual are tested: in a linear model with skewed errors, an effect of the child on the other
  variable would show in its square.

Residuals and the causes of curves are limited to ±`BOUND` standard deviations: under heavy tails one row would decide.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.moments import MAX_UNJOINED_CORRELATION, Table, sum_over_chunks

BOUND = 4.0
"""standard deviations to which residuals, and the causes of curves, are limited"""
MIN_ROWS = 30
"""minimum number of rows with all cells that a residual needs"""


@dataclass(frozen=True)
class FittedFamily:
    """A variable, its parents, those of them that have cubes, and their weights, in standard deviations."""

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
        """The number of columns of its design: parents, the residual, the squared prediction, cubes."""
        return len(self.parents) + 2 + len(self.cubed)


def curvature(
    table: Table,
    means: FloatArray,
    S: FloatArray,
    parents: NDArray[np.bool_],
    numbers: NDArray[np.bool_],
    chance: float,
) -> FloatArray:
    """By variable, the larger of the two shares, `[d]`.

    `table` `[n_rows, d]` is centred at `means`; predictions are those of regressions on the moments `S` of all silos.
    `parents[i, j]` says whether i may be a cause of j, and `numbers` which columns are no indicators. Rows without a
    needed cell are left out; `chance`, about what a share is by chance times the rows, is subtracted for these.
    """
    scales = np.sqrt(np.maximum(np.diag(S), 1e-300))
    R = S / np.outer(scales, scales)
    families = []
    for j in np.flatnonzero(numbers):
        of = np.flatnonzero(parents[:, j])
        weights = np.linalg.lstsq(R[np.ix_(of, of)], R[of, j], rcond=None)[0]
        deviation = np.sqrt(max(R[j, j] - weights @ R[of, j], 1e-12))
        families.append(FittedFamily(int(j), of, np.flatnonzero(numbers[of]), weights, float(deviation)))
    found = np.zeros(len(S))
    with_parents = [one for one in families if len(one.parents)]
    if with_parents:
        sums = sum_over_chunks(table, lambda rows: _family_sums((rows - means) / scales, with_parents))
        for one in with_parents:
            own, sums = np.split(sums, [1 + one.columns + one.columns**2])
            found[one.child] = max(_bent_share(own, one) - chance * float(_lacking(own[0], table.shape[0])), 0.0)
    tested = _unjoined(R, families, parents | parents.T, numbers)
    if tested.any():
        pairs = sum_over_chunks(table, lambda rows: _pair_sums((rows - means) / scales, families))
        shares = _square_shares(pairs) - chance * _lacking(pairs[0], table.shape[0])
        found = np.maximum(found, np.where(tested, shares, 0.0).max(axis=0))
    return found


def _lacking(rows: FloatArray, all_rows: int) -> FloatArray:
    """How much larger 1/rows is than 1/`all_rows`."""
    return np.asarray(1 / np.maximum(rows, 1) - 1 / all_rows)


def _family_sums(z: FloatArray, families: list[FittedFamily]) -> FloatArray:
    """For each family its complete rows, and the sums and products of its design, one after the other."""
    every, complete = [], not np.isnan(z.sum())
    for one in families:
        rows = z if complete else z[~np.isnan(z[:, [*one.parents, one.child]]).any(axis=1)]
        causes = rows[:, one.parents]
        limited = np.clip(causes, -BOUND, BOUND)
        curves = (limited @ one.weights) ** 2, limited[:, one.cubed] ** 3
        design = np.column_stack([causes, one.residual(rows), *curves])
        every += [[len(design)], design.sum(axis=0), (design.T @ design).ravel()]
    return np.concatenate(every)


def _bent_share(sums: FloatArray, family: FittedFamily) -> float:
    """The share of the child's residual given its parents that the square and the cubes explain, less their number."""
    m, k, n = family.columns, len(family.parents), sums[0]
    if n < MIN_ROWS or n < 2 * m:
        return 0.0
    C = sums[1 + m :].reshape(m, m) / n - np.outer(sums[1 : 1 + m], sums[1 : 1 + m]) / n**2
    left = C[k:, k:] - C[k:, :k] @ np.linalg.lstsq(C[:k, :k], C[:k, k:], rcond=None)[0]
    if left[0, 0] <= 1e-9 * max(C[k, k], 1e-300):
        return 0.0
    explained = left[0, 1:] @ np.linalg.lstsq(left[1:, 1:], left[1:, 0], rcond=1e-9)[0]
    return float(explained / left[0, 0] - (m - k - 1) / n)


def _pair_sums(z: FloatArray, families: list[FittedFamily]) -> FloatArray:
    """The sums of 1, a, b, a², b², ab over complete rows, `[6, d, d]`: a is the square of i, b the residual of j."""
    a, b = np.clip(z, -BOUND, BOUND) ** 2, np.zeros_like(z)
    for one in families:
        b[:, one.child] = one.residual(z)
    has_a, has_b = (~np.isnan(one) for one in (a, b))
    a, b = np.where(has_a, a, 0.0), np.where(has_b, b, 0.0)
    return np.stack([first.T @ second for first, second in _factors(a, b, has_a * 1.0, has_b * 1.0)])


def _factors(a: FloatArray, b: FloatArray, one_a: FloatArray, one_b: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    return [(one_a, one_b), (a, one_b), (one_a, b), (a * a, one_b), (one_a, b * b), (a, b)]


def _square_shares(sums: FloatArray) -> FloatArray:
    """The squared correlations of squares and residuals, `[d, d]`, less their size by chance."""
    n, a, b, aa, bb, ab = sums
    rows = np.maximum(n, 1)
    both, of_a, of_b = ab - a * b / rows, aa - a * a / rows, bb - b * b / rows
    known = (n >= MIN_ROWS) & (of_a > 1e-9 * aa) & (of_b > 1e-9 * bb)
    shares = np.divide(both**2, of_a * of_b, out=np.zeros_like(both), where=known)
    return np.where(known, shares - 1 / rows, 0.0)


def _unjoined(
    R: FloatArray, families: list[FittedFamily], joined: NDArray[np.bool_], numbers: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which squares of i are tested in the residual of j, `[d, d]`: see the module."""
    residual_map = np.eye(len(R))
    for one in families:
        residual_map[one.parents, one.child] -= one.weights
    both = R @ residual_map
    variances = np.maximum(np.einsum("ij,ij->j", residual_map, both), 1e-12)
    tested = both**2 < MAX_UNJOINED_CORRELATION**2 * variances
    return np.asarray(tested & ~joined & ~np.eye(len(R), dtype=np.bool_) & numbers & numbers[:, None])
