"""Means and variances of the cells that are there."""

import numpy as np

from ..core.schema import FloatArray


def known_means(table: FloatArray) -> FloatArray:
    """Return the mean of each column's cells that are not NaN, `[d]`; 0 for a column that has none."""
    empty = np.isnan(table)
    if not empty.any():
        return np.asarray(table.mean(axis=0))
    there = len(table) - empty.sum(axis=0)
    return np.asarray(np.where(empty, 0.0, table).sum(axis=0) / np.maximum(there, 1))


def known_mean_squares(table: FloatArray) -> FloatArray:
    """Return the mean square of each column's cells that are not NaN, `[d]`; 0 for a column that has none."""
    return known_means(table**2)
