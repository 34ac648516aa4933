"""The degenerate Gaussian score of mixed data, from second moments of the coded table (Andrews, Ramsey, Cooper 2019).

score(X | Pa) = −n/2·(ln|R_{X ∪ Pa}| − ln|R_Pa|) − c/2·ln n·|X|·Σ|Pa|, R the correlations of the coded columns and |·| a
number of columns (Eq. 7 there, without what is the same for all parents). With c = 2 it takes twice the BIC's price: an
indicator is no normal variable, and its likelihood exaggerates.
"""

import math

import numpy as np
from numba import njit

from ..core.schema import FloatArray
from ..statistics.blocks import Blocks, log_left
from .families import Batch

PRICE = 2.0
"""c, how many times the BIC's price a parent costs"""


def price_of(rows: int) -> float:
    """Return what a pair of columns of child and parent costs in twice the log-likelihood: c·ln n."""
    return PRICE * math.log(rows)


def score_blocks(blocks: Blocks, batch: Batch) -> FloatArray:
    """Return the score of every family of `batch`."""
    return np.asarray(_score(blocks.rows, blocks.R, blocks.first, batch.first, batch.members, price_of(blocks.rows)))


@njit(cache=True)
def _score(n, R, columns, first, members, price):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.empty(len(first) - 1)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        pairs = 0
        for p in parents:
            pairs += (columns[p + 1] - columns[p]) * (columns[child + 1] - columns[child])
        scores[m] = -0.5 * n * log_left(R, columns, child, parents) - 0.5 * price * pairs
    return scores
