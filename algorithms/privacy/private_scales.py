"""The scale of each variable, estimated privately from counts on a fixed public grid, so that the data need no bound.

For every variable, each row adds one to the bucket of |x|. The bucket edges are powers of 2^¼ from 2⁻²⁰ to 2²⁰,
independent of the data. Replacing a row changes two counts per variable by one, so the counts of d variables have the
ℓ₂ sensitivity √(2d), for any values. The estimate is the scale of the normal distribution whose bucket probabilities
fit the counts best. This is a matched filter: it sums over occupied buckets and is robust to noise in empty buckets.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ..core.schema import FloatArray
from ..errors import BadInput

BUCKETS_PER_DOUBLING = 4
EDGES: FloatArray = 2.0 ** np.arange(-20, 20 + 1e-9, 1 / BUCKETS_PER_DOUBLING)
"""upper edges of the buckets; a further bucket counts larger values"""
BUCKETS = len(EDGES) + 1
# Candidate scales, each about 7 % above the one before.
CANDIDATES: FloatArray = 2.0 ** np.arange(-19, 19, 0.1)
# Minimum signal-to-noise ratio of the matched filter; with a lower ratio, more than one scale in fifty is wrong by a
# factor of two.
MIN_SIGNAL_TO_NOISE = 5.0


def bucket_counts(table: FloatArray) -> NDArray[np.int64]:
    """By variable, the number of rows of `table` `[n_rows, d]` in each bucket, `[d, n_buckets]`.

    A zero is in no bucket, because unreadable cells are read as zeros and carry no information about the scale.
    """
    bucket = np.searchsorted(EDGES, np.abs(table)) + BUCKETS * np.arange(table.shape[1])
    return np.bincount(bucket[table != 0], minlength=BUCKETS * table.shape[1]).reshape(-1, BUCKETS)


def counts_sensitivity(variables: int) -> float:
    """The ℓ₂ sensitivity of the counts of d variables: √(2d), because a value is in one bucket or none."""
    return float(np.sqrt(2 * variables))


@cache
def profiles() -> FloatArray:
    """The bucket probabilities of a normal variable, by candidate scale, `[n_scales, n_buckets]`."""
    below = erf(EDGES[None, :] / (np.sqrt(2) * CANDIDATES[:, None]))
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def require_signal(rows: int, deviation: float) -> None:
    """Raise `BadInput` if `rows` rows are too few for noise of this standard `deviation` in the counts."""
    if rows * float(np.linalg.norm(profiles()[len(CANDIDATES) // 2])) < MIN_SIGNAL_TO_NOISE * deviation:
        raise BadInput(
            f"{rows} rows are too few for this budget: the bucket counts for the scales would have noise of standard "
            f"deviation {deviation:.0f}; allow a greater epsilon, or state the variables' scale if it is public"
        )


def scales(counts: NDArray[np.int64], variables: tuple[str, ...]) -> FloatArray:
    """Each variable's scale `[d]`, the root mean square under normality, from (noisy) `counts` `[d, n_buckets]`.

    Raises `BadInput`, naming the variable, if the scale of a variable is at an end of the grid.
    """
    best = (counts @ profiles().T).argmax(axis=1)
    for j in np.flatnonzero((best == 0) | (best == len(CANDIDATES) - 1)):
        raise BadInput(
            f"column '{variables[j]}': its scale is outside 2^-19 to 2^19, or hidden by noise: "
            "measure it in another unit, allow a greater epsilon or, if the column is 0 or empty in all rows, leave it "
            f"out with --ignore {variables[j]}"
        )
    return np.asarray(CANDIDATES[best])
