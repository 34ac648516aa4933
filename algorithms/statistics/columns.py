"""What each column of a table is like by itself: how many cells it has, where they stand, how far they spread."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .chunks import Table, chunks


@dataclass(frozen=True)
class Columns:
    """The columns of a table, empty cells (NaN) aside, `[n_variables]` each."""

    known: NDArray[np.int64]
    """how many cells are not empty"""
    means: FloatArray
    squares: FloatArray
    """sums of the squared deviations from the means"""
    greatest: FloatArray
    """the greatest absolute value"""

    @property
    def variances(self) -> FloatArray:
        """The mean squared deviation of each column; 0 for one without any cell."""
        return np.asarray(self.squares / np.maximum(self.known, 1))


def columns_of(table: Table) -> Columns:
    """Return what each column of `table` `[n_rows, n_variables]` is like.

    One pass, whose parts are joined as in Chan, Golub, LeVeque 1983 ("Algorithms for computing the sample variance").
    """
    found: Columns | None = None
    for rows in chunks(table):
        part = _of(rows)
        found = part if found is None else _joined(found, part)
    if found is None:
        raise ValueError("a table without rows has no columns to describe")
    return found


def _of(rows: FloatArray) -> Columns:
    means, known = rows.mean(axis=0), np.full(rows.shape[1], len(rows))
    about = rows - means
    if np.isnan(means).any():
        empty = np.isnan(rows)
        known = len(rows) - empty.sum(axis=0)
        rows = np.where(empty, 0.0, rows)
        means = rows.sum(axis=0) / np.maximum(known, 1)
        about = np.where(empty, 0.0, rows - means)
    squares = np.multiply(about, about, out=about).sum(axis=0)
    return Columns(known, means, squares, np.maximum(rows.max(axis=0), -rows.min(axis=0)))


def _joined(one: Columns, other: Columns) -> Columns:
    known, apart = one.known + other.known, other.means - one.means
    share = other.known / np.maximum(known, 1)
    return Columns(
        known,
        np.where(one.known > 0, one.means + apart * share, other.means),
        one.squares + other.squares + apart**2 * one.known * share,
        np.maximum(one.greatest, other.greatest),
    )
