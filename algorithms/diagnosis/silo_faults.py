"""What sets a silo's rows apart from those of the other silos as faults do, and the edges that rest on one silo.

A silo has the sums over all silos and subtracts its own part, so it can compare itself with the others. Its figures are
the logarithm of the ratio of standard deviations in either direction (another unit), the distance of a mean from zero
on the other side (another sign), the significance of correlations with another sign, the share of rows that are
unlikely by the moments of the others (rows from elsewhere, or invented), and the share of rows that repeat another row.
Site effects (other means, and variances that differ by small factors) change none of them much.

An edge falls without a silo if the moments of the other silos do not support it by the BIC of its child's regression.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from ..statistics.declared_sums import WRONG
from ..statistics.moments import Table, thin_rows
from .curvature import chi_square_bound

FAULT_FIGURES = ("larger", "smaller", "sign", "correlations", "far rows", "repeated rows")
"""the figures of `fault_figures`, in their order"""
UNLIKELY = 1e-4
"""probability of a far row, if rows are Gaussian with the covariances of the other silos up to a common factor"""
MIN_EIGENVALUE = 1e-3
"""least variance of a combination of standardised columns that is compared: rounding changes smaller ones"""
MAX_THINNED_ROWS = 20_000
"""number of rows from which the shares of rows are computed, if a table is read in passes"""
MAX_CHANCE_REPEATS = 0.05
"""expected number of rows that equal a given row by chance, up to which repeated rows mean anything"""
MIN_EVIDENCE = 10.0
"""least gain in BIC, in nats, of an edge that is said to rest on one silo: weaker edges may fall with any rows"""
MIN_SPREAD_ROWS = 10
"""least number of rows on which a variance rests that is compared between silos"""
NEGLIGIBLE, ROUNDED_DIGITS = 1e-6, 9
"""largest figure that rounding may cause, and the digits by which columns are compared, so that it decides no tie"""
MIN_CONTRADICTION = 1e-3
"""least logarithm of a ratio of standard deviations that contradicts a sum: rounding may cause smaller ones"""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""an odd number whose multiples are spread over 64 bits"""


def fault_figures(
    table: Table,
    own: tuple[FloatArray, FloatArray],
    rest: tuple[FloatArray, FloatArray],
    other_rows: float,
    columns: NDArray[np.int64],
) -> FloatArray:
    """The figures of a silo with the rows `table` `[n_rows, d]`, each with its column, `[6, 2]`.

    `own` and `rest` are means `[d]` and second moments about silos' own means per row `[d, d]`: of this silo, and of
    the others, which have `other_rows`. `columns` are the columns of numbers. Figures without a column have the first.
    """
    found = np.zeros((len(FAULT_FIGURES), 2))
    variances = np.diag(own[1]), np.diag(rest[1])
    columns = columns[(variances[0][columns] > 1e-12 * variances[1][columns]) & (variances[1][columns] > 0)]
    if not len(columns):
        return found
    sds = [np.sqrt(one[columns]) for one in variances]
    rows = thin_rows(table, MAX_THINNED_ROWS)[:, columns]
    rows = rows[~np.isnan(rows).any(axis=1)]
    ratios = np.where(_spread_over_rows(rows - own[0][columns]), np.log(sds[0] / sds[1]), 0.0)
    distances = own[0][columns] / sds[0], rest[0][columns] / sds[1]
    opposite = np.where(distances[0] * distances[1] < 0, np.minimum(*map(np.abs, distances)), 0.0)
    for place, values in enumerate((ratios, -ratios, opposite)):
        most = int(np.argmax(np.round(values, ROUNDED_DIGITS)))
        found[place] = (float(values[most]), columns[most]) if values[most] > NEGLIGIBLE else (0.0, columns[0])
    against, at = _opposite_correlations(own[1], rest[1], table.shape[0], other_rows, columns, rows - own[0][columns])
    found[3] = against, columns[at]
    if len(rows) > len(columns):
        far = _share_of_far_rows(rows - own[0][columns], rest[1][np.ix_(columns, columns)])
        found[4:] = [(far, columns[0]), (_share_of_repeated_rows(rows), columns[0])]
    return found


def _spread_over_rows(deviations: FloatArray) -> NDArray[np.bool_]:
    """Whether the variance of each column of `deviations` `[n, d]` rests on `MIN_SPREAD_ROWS` rows or more.

    The number of rows is (Σ x²)² / Σ x⁴. A scale that rests on a few rows is no unit, and would tell of these rows.
    """
    scaled = deviations / np.maximum(np.abs(deviations).max(axis=0, initial=0.0), 1e-300)
    squares = scaled**2
    return np.asarray(squares.sum(axis=0) ** 2 >= MIN_SPREAD_ROWS * (squares**2).sum(axis=0))


def require_scales_of_a_sum(figures: FloatArray) -> None:
    """Raise `BadInput` if the `figures` `[n_silos, 6, 2]` contradict the sums with which silos were compared.

    A variance over all silos is the mean of their own. So they are not all smaller than those of the others, in every
    column, and not all larger. Figures of lost silos are NaN; nothing is then known of the sums.
    """
    larger, smaller = figures[:, 0, 0], figures[:, 1, 0]
    for none, all_of_them in ((larger, smaller), (smaller, larger)):
        if len(figures) and (none <= NEGLIGIBLE).all() and (all_of_them > MIN_CONTRADICTION).all():
            raise BadInput(f"the variances of all silos differ to the same side from their sum: {WRONG}")


def _opposite_correlations(
    own: FloatArray,
    rest: FloatArray,
    own_rows: float,
    other_rows: float,
    columns: NDArray[np.int64],
    deviations: FloatArray,
) -> tuple[float, int]:
    """The significance of correlations that have opposite signs, and the place in `columns` with most of them.

    For a pair it is the smaller of two numbers, which are standard normal if the correlation is zero. Of the others,
    this is |artanh r| √(n − 3). Of the silo, it is studentised by its `deviations` `[n, d]`: with heavy tails, few rows
    may give a large correlation.
    """
    scales = np.sqrt(np.diag(rest)[columns])
    R = np.clip(rest[np.ix_(columns, columns)] / np.outer(scales, scales), -1 + 1e-9, 1 - 1e-9)
    others = np.arctanh(R) * np.sqrt(max(other_rows - 3, 0.0))
    squares = deviations**2
    spread = np.sqrt(np.maximum(squares.T @ squares / max(len(squares), 1), 1e-300))
    mine = own[np.ix_(columns, columns)] / spread * np.sqrt(own_rows)
    against = np.where(mine * others < 0, np.minimum(np.abs(mine), np.abs(others)), 0.0)
    return float(against.max()), int(np.argmax(against.sum(axis=0)))


def _share_of_far_rows(deviations: FloatArray, S: FloatArray) -> float:
    """The share of `deviations` `[n, d]` from the mean that are unlikely under covariances proportional to `S`.

    The squared Mahalanobis distance is divided by its median, so a common factor of all variances changes nothing.
    """
    scales = np.sqrt(np.diag(S))
    eigenvalues, vectors = np.linalg.eigh(S / np.outer(scales, scales))
    kept = eigenvalues > MIN_EIGENVALUE
    distances = (((deviations / scales) @ (vectors[:, kept] / np.sqrt(eigenvalues[kept]))) ** 2).sum(axis=1)
    dimensions = int(kept.sum())
    bound = chi_square_bound(dimensions, UNLIKELY) / chi_square_bound(dimensions, 0.5)
    return float((distances > bound * np.median(distances)).mean())


def _share_of_repeated_rows(rows: FloatArray) -> float:
    """The share of `rows` `[n, d]` that equal an earlier row; 0 if so many may be equal by chance.

    Columns may depend on each other, so the chance that two rows are equal is taken as the root of its value for
    independent columns.
    """
    n, chance = len(rows), float(len(rows))
    keys = np.zeros(n, np.uint64)
    for column in np.ascontiguousarray(rows.T + 0.0):  # minus zero becomes zero
        keys = (keys ^ column.view(np.uint64)) * MULTIPLIER
        keys ^= keys >> np.uint64(29)
    keys.sort()
    repeated = float((keys[1:] == keys[:-1]).sum()) / n
    for column in rows.T if repeated else ():
        _, counts = np.unique(column, return_counts=True)
        chance *= min(1.0, np.sqrt(max(float((counts * (counts - 1)).sum()), 1.0) / (n * max(n - 1, 1))))
    return repeated if chance <= MAX_CHANCE_REPEATS else 0.0


def influence_edges(parents: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The edges `[n_edges, 2]`, as cause and child, that may rest on one silo: all entries of `parents` `[d, d]`."""
    return np.argwhere(parents)


def evidence(S: FloatArray, rows: float, parents: NDArray[np.bool_]) -> FloatArray:
    """The gain in BIC of each of the `influence_edges`, in nats, by second moments `S` `[d, d]` over `rows` rows.

    With r the partial correlation of cause and child given the other parents, it is −½ n ln(1 − r²) − ½ ln n.
    """
    found = np.zeros(parents.shape)
    scales = np.sqrt(np.maximum(np.diag(S), 1e-300))
    R = S / np.outer(scales, scales) + 1e-9 * np.eye(len(S))
    for j in np.flatnonzero(parents.any(axis=0)):
        pa = np.flatnonzero(parents[:, j])
        family = np.append(pa, j)
        precision = np.linalg.pinv(R[np.ix_(family, family)], hermitian=True)
        diagonal = np.maximum(np.diag(precision), 1e-300)
        squares = np.clip(precision[-1, :-1] ** 2 / (diagonal[:-1] * diagonal[-1]), 0.0, 1 - 1e-12)
        found[pa, j] = -0.5 * rows * np.log1p(-squares) - 0.5 * np.log(max(rows, 1.0))
    return found[parents]


def resting_on_one_silo(
    S: FloatArray, rows: int, parents: NDArray[np.bool_], fallen: FloatArray
) -> dict[tuple[int, int], int]:
    """By edge (cause, child), the slot of the one silo without which it falls.

    `S` `[d, d]` are the second moments over all `rows`. `fallen` `[n_edges, 2]` has the number of silos without which
    an edge falls, and the sum of their slots plus one. An edge without a direction is in `parents` both ways, and falls
    if it does both ways; it is returned once.
    """
    strong = evidence(S, rows, parents) >= MIN_EVIDENCE
    slots = np.where(strong & (np.round(fallen[:, 0]) == 1), np.round(fallen[:, 1]) - 1, -1)
    by_edge = {(int(i), int(j)): int(slot) for (i, j), slot in zip(influence_edges(parents), slots, strict=True)}
    return {
        (i, j): slot
        for (i, j), slot in by_edge.items()
        if slot >= 0 and by_edge.get((j, i), slot) == slot and not ((j, i) in by_edge and j < i)
    }
