"""How large each variable is, released privately and without a bound from the data: counts on a fixed public grid.

Every row puts one mark a variable into the bucket of |x|; the buckets are powers of 2^¼ from 2⁻²⁰ to 2²⁰, whatever the
data. A replaced row moves two counts a variable by one, so the counts of d variables have the ℓ₂ sensitivity √(2d),
however large its values. The scale is then the one whose normal distribution would fill the buckets most alike: a
matched filter, which sums over the buckets where rows are and is not led astray by noise in all the empty ones.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ..core.schema import FloatArray
from ..errors import BadInput

STEPS_A_DOUBLING = 4
EDGES: FloatArray = 2.0 ** np.arange(-20, 20 + 1e-9, 1 / STEPS_A_DOUBLING)
"""upper edges of the buckets; one more takes what is above the last"""
BUCKETS = len(EDGES) + 1
# Scales that are tried, a fifteenth apart.
CANDIDATES: FloatArray = 2.0 ** np.arange(-19, 19, 0.1)
# The least signal-to-noise ratio in the matched filter: with less, more than one scale in fifty is wrong by a factor of
# two.
LEAST_SIGNAL = 5.0


def bucket_counts(table: FloatArray) -> NDArray[np.int64]:
    """Return, for each variable, how many rows of `table` `[n_rows, d]` fall in each bucket, `[d, n_buckets]`."""
    at = np.searchsorted(EDGES, np.abs(table)) + BUCKETS * np.arange(table.shape[1])
    return np.bincount(at.ravel(), minlength=BUCKETS * table.shape[1]).reshape(-1, BUCKETS)


def counts_sensitivity(variables: int) -> float:
    """Return the ℓ₂ sensitivity of the counts of d variables: √(2d)."""
    return float(np.sqrt(2 * variables))


@cache
def profiles() -> FloatArray:
    """Return the share of a normal variable's values in each bucket, by candidate scale, `[n_scales, n_buckets]`."""
    below = erf(EDGES[None, :] / (np.sqrt(2) * CANDIDATES[:, None]))
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def require_signal(rows: int, deviation: float) -> None:
    """Raise `BadInput` if the counts of `rows` rows are lost in noise of this standard `deviation`."""
    if rows * float(np.linalg.norm(profiles()[len(CANDIDATES) // 2])) < LEAST_SIGNAL * deviation:
        raise BadInput(
            f"{rows} rows in all are too few for this budget: the noise in the counts that scales are from would have "
            f"the deviation {deviation:.0f}; allow a greater epsilon, or state the variables' scale if it is public"
        )


def scales(counts: NDArray[np.int64], variables: tuple[str, ...]) -> FloatArray:
    """Return each variable's scale `[d]`, the root mean square of a normal one, from `counts` `[d, n_buckets]`.

    The counts may be noisy. Raises `BadInput` naming a variable that lies at an end of the grid.
    """
    best = (counts @ profiles().T).argmax(axis=1)
    for j in np.flatnonzero((best == 0) | (best == len(CANDIDATES) - 1)):
        raise BadInput(
            f"column '{variables[j]}': its scale lies outside 2^-19 to 2^19, or noise hides it: "
            "measure it in another unit, or allow a greater epsilon"
        )
    return np.asarray(CANDIDATES[best])
