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
    coding = coding_of(schema)
    mean = expected_moments(table, coding, covariance).mean
    numbers = ~np.array(coding.discrete, np.bool_)[coding.owners]
    found = []
    for rows in chunks(table):
        grouped = patterns(coding.rows(rows))
        worst = np.full(len(rows), -1, np.int64)
        worst[grouped.order] = _unlikely(grouped.rows, grouped.first, grouped.observed, covariance, mean, numbers)
        cleaned = np.array(rows, np.float64)
        hit = np.flatnonzero(worst >= 0)
        cleaned[hit, np.asarray(coding.owners)[worst[hit]]] = np.nan
        found.append(cleaned)
    return np.concatenate(found)


@njit(cache=True)
def _unlikely(rows, first, patterns, S, mean, numbers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """By row, the index of the observed number with the largest |z|, or −1 if no |z| is too large."""
    worst = np.full(len(rows), -1)
    for p in range(len(patterns)):
        observed = np.flatnonzero(patterns[p])
        k = len(observed)
        K = inverse_of_observed(S, observed)
        for r in range(first[p], first[p + 1]):
            most = UNLIKELY_DEVIATIONS
            for a in range(k):
                if not numbers[observed[a]]:
                    continue
                z = 0.0
                for b in range(k):
                    z += K[a, b] * (rows[r, observed[b]] - mean[observed[b]])
                z = abs(z) / np.sqrt(K[a, a])
                if z > most:
                    most, worst[r] = z, observed[a]
    return worst
