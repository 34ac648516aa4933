"""Replacing outliers by empty cells (ours): 1 % of wrong cells ruins every learner, but 1 % of empty cells does not.

Both steps run inside the silo:

- `without_far_cells` empties cells that are further than `FAR_DEVIATIONS` standard deviations from the median of their
  column in this silo. The standard deviation is estimated by the median absolute deviation. If half of a column's cells
  have the same value, this scale is zero, and the column keeps all cells.
- `screen` finds wrong cells that lie within the range of their column but do not fit the rest of their row. The
  covariance of all columns is known from EM (`em.py`). In a row with observed columns o, the cell j deviates from its
  expectation given the other cells by z = (K (x − μ))_j / √K_jj standard deviations, where K is the inverse of the
  covariance of o. In each row, the number with the largest |z| becomes empty if |z| exceeds `UNLIKELY_DEVIATIONS`. EM
  and the screen alternate until a screen finds hardly any further cell (`flows/job/preparation.py`).
  A row may also be from another population, so that more than a few of its cells are wrong. Its squared distance from
  the mean is (x − μ)ᵀ K (x − μ), which falls by z² without cell j. If it is larger than that of all but one Gaussian
  row in 10,000, and stays so without the least likely quarter of its numbers, all numbers of the row become empty.

In Gaussian columns without wrong cells, the first step empties two cells in a billion, and the second empties one cell
in 16,000.
"""

import numpy as np

from ..compiled import njit
from ..core.schema import FloatArray, Schema, Transform
from .coding import coding_of
from .expected_moments import expected_moments, inverse_of_observed, patterns
from .moments import chunks
from .transforms import apply

FAR_DEVIATIONS = 6.0
"""distance from the median, in standard deviations (by the median absolute deviation), beyond which a cell is far"""
MAD = 1.4826
"""ratio of a Gaussian's standard deviation to its median absolute deviation"""
UNLIKELY_DEVIATIONS = 4.0
"""distance from the expectation given the row's other cells, in standard deviations, beyond which a cell is unlikely"""
UNLIKELY_ROW = 1e-4
"""probability of a larger distance below which a row is unlikely"""
MAX_WRONG_SHARE, MIN_WRONG_CELLS = 0.25, 2
"""a row is wrong as a whole if it is unlikely without this share of its cells; rows in which this share has fewer cells
than the minimum are never wrong as a whole"""
NO_CELL, WHOLE_ROW = -1, -2
"""results for a row in which no cell is unlikely, and for a row that is wrong as a whole"""


def without_far_cells(column: FloatArray, transform: Transform | None = None) -> FloatArray:
    """`column` `[n_rows]` with NaN in cells that are far from the other cells after the `transform`."""
    scaled = column if transform is None else apply(column, transform)
    known = scaled[~np.isnan(scaled)]
    if not len(known):
        return column
    centre = np.median(known)
    spread = MAD * np.median(np.abs(known - centre))
    far = np.abs(scaled - centre) > FAR_DEVIATIONS * spread
    return np.where(far, np.nan, column) if spread > 0 and far.any() else column


def farthest_cell(column: FloatArray) -> tuple[int, float] | None:
    """The row of the cell that is farthest from the median of `column` `[n_rows]`, and the median.

    The result is None if no cell is far.
    """
    far = np.isnan(without_far_cells(column)) & ~np.isnan(column)
    if not far.any():
        return None
    centre = float(np.nanmedian(column))
    return int(np.argmax(np.where(far, np.abs(column - centre), -1.0))), centre


def screened(table: FloatArray, schema: Schema) -> FloatArray:
    """`table` `[n_rows, d]` after the screens of the schema's imputation model, one after the other."""
    for covariance in schema.imputation_model.screens:
        table = screen(table, schema, covariance)
    return table


def screen(table: FloatArray, schema: Schema, covariance: FloatArray) -> FloatArray:
    """`table` `[n_rows, d]` with NaN for the least likely number of each row, if it is unlikely under `covariance`."""
    from scipy.special import chdtri  # imported late: most processes need no quantiles

    coding = coding_of(schema)
    mean = expected_moments(table, coding, covariance).mean
    numbers = ~np.array(coding.discrete, np.bool_)[coding.owners]
    bounds = chdtri(np.arange(1, len(covariance) + 1), UNLIKELY_ROW)
    found = []
    for rows in chunks(table):
        grouped = patterns(coding.rows(rows))
        worst = np.full(len(rows), NO_CELL, np.int64)
        known = (grouped.rows, grouped.first, grouped.observed)
        worst[grouped.order] = _unlikely(*known, covariance, mean, numbers, bounds)
        cleaned = np.array(rows, np.float64)
        hit, wrong = np.flatnonzero(worst >= 0), np.flatnonzero(worst == WHOLE_ROW)
        cleaned[hit, np.asarray(coding.owners)[worst[hit]]] = np.nan
        cleaned[np.ix_(wrong, np.unique(np.asarray(coding.owners)[numbers]))] = np.nan
        found.append(cleaned)
    return np.concatenate(found)


@njit(cache=True)
def _unlikely(rows, first, patterns, S, mean, numbers, bounds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """By row, the index of the observed number with the largest |z|, `NO_CELL` if no |z| is too large, or `WHOLE_ROW`.

    `bounds` `[D]` has the largest squared distance of a likely row by its number of observed columns.
    """
    worst = np.full(len(rows), NO_CELL)
    for p in range(len(patterns)):
        observed = np.flatnonzero(patterns[p])
        k = len(observed)
        K = inverse_of_observed(S, observed)
        is_number = numbers[observed]
        for r in range(first[p], first[p + 1]):
            weighted = K @ (rows[r][observed] - mean[observed])
            z = np.where(is_number, np.abs(weighted) / np.sqrt(np.diag(K)), 0.0)
            if not k or z.max() <= UNLIKELY_DEVIATIONS:
                continue
            worst[r] = observed[np.argmax(z)]
            distance = (weighted * (rows[r][observed] - mean[observed])).sum()
            if distance > bounds[k - 1] and _stays_unlikely(K, weighted, distance, is_number, bounds):
                worst[r] = WHOLE_ROW
    return worst


@njit(cache=True)
def _stays_unlikely(K, weighted, distance, is_number, bounds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a row is unlikely without each number in turn that lowers its squared `distance` most.

    `K` `[k, k]` is the inverse covariance of its k observed columns, and `weighted` `[k]` is K (x − μ).
    """
    K, weighted, stays, k = K.copy(), weighted.copy(), is_number.copy(), len(weighted)
    most = int(MAX_WRONG_SHARE * is_number.sum())
    if most < MIN_WRONG_CELLS:
        return False
    for removed in range(1, most + 1):
        falls = np.where(stays, weighted**2 / np.diag(K), -1.0)
        j = int(np.argmax(falls))
        distance -= falls[j]
        if distance <= bounds[k - removed - 1]:
            return False
        stays[j] = False
        share = K[:, j] / K[j, j]
        weighted = weighted - share * weighted[j]
        K = K - np.outer(share, K[j])
        K[j, j] = 1.0
    return True
