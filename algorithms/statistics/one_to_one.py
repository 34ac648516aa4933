"""Pairs of columns that determine each other: nothing in the data tells A → B from B → A, nor which acts on C."""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray

Pair = tuple[int, int]


def one_to_one(table: NDArray[np.integer]) -> bool:
    """Say whether two discrete columns determine each other, from their counts `[levels of A, levels of B]`.

    Each level that occurs must occur with one level of the other column. A column with a single level is left out: it
    is constant, and determined by anything.
    """
    occurs = np.asarray(table) > 0
    by_row, by_column = occurs.sum(axis=1), occurs.sum(axis=0)
    return bool(by_row.max(initial=0) <= 1 and by_column.max(initial=0) <= 1 and occurs.sum() > 1)


def proportional(correlations: FloatArray, tolerance: float = 1e-6) -> tuple[Pair, ...]:
    """Return the pairs i < j of continuous columns with |correlation| above 1 − `tolerance`; of NaN none."""
    near = np.triu(np.abs(correlations) > 1 - tolerance, 1)
    return tuple((int(i), int(j)) for i, j in np.argwhere(near))
