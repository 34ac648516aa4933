"""How large each variable is, released privately and without a bound from the data: counts on a fixed public grid.

Every row puts one mark a variable into the bucket of |x|; the buckets are powers of 2^¼ from 2⁻²⁰ to 2²⁰, whatever the
data. A replaced row moves two counts a variable by one, so the counts of d variables have the ℓ₂ sensitivity √(2d),
however large its values. A quantile of the noisy counts is then a scale, found to a quarter of a power of two.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..protocol import FloatArray

STEPS_A_DOUBLING = 4
EDGES: FloatArray = 2.0 ** np.arange(-20, 20 + 1e-9, 1 / STEPS_A_DOUBLING)
"""upper edges of the buckets; one more takes what is above the last"""
BUCKETS = len(EDGES) + 1
# Where a normal variable has its root mean square: 68.27 % of its values are no farther from zero.
ROOT_MEAN_SQUARE = 0.6827


def bucket_counts(table: FloatArray) -> NDArray[np.int64]:
    """Return, for each variable, how many rows of `table` `[n_rows, d]` fall in each bucket, `[d, n_buckets]`."""
    at = np.searchsorted(EDGES, np.abs(table)) + BUCKETS * np.arange(table.shape[1])
    return np.bincount(at.ravel(), minlength=BUCKETS * table.shape[1]).reshape(-1, BUCKETS)


def counts_sensitivity(variables: int) -> float:
    """Return the ℓ₂ sensitivity of the counts of so many variables: √(2d)."""
    return float(np.sqrt(2 * variables))


def scales(counts: NDArray[np.int64], rows: int, variables: tuple[str, ...]) -> FloatArray:
    """Return each variable's scale `[d]`: the middle of the bucket in which the quantile of a root mean square lies.

    `counts` `[d, n_buckets]` may be noisy. Raises `BadInput` naming a variable that lies outside the grid.
    """
    at = (np.cumsum(counts, axis=1) >= ROOT_MEAN_SQUARE * rows).argmax(axis=1)
    for j in np.flatnonzero((at == 0) | (at >= len(EDGES))):
        raise BadInput(
            f"column '{variables[j]}': its scale lies outside 2^-20 to 2^20, or too much noise hides it: "
            "measure it in another unit, or allow a greater epsilon"
        )
    return np.asarray(EDGES[at] * 2.0 ** (-0.5 / STEPS_A_DOUBLING))
