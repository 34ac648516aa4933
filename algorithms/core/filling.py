"""What all silos have found out together about their empty cells, before a run: public, as sums over them are."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Filling:
    """A model of the columns, by which each silo reckons with its empty cells or fills them; nothing by default.

    Of continuous and mixed data it is a covariance, of discrete data a Bayesian network. What a silo fills in stays
    with it.
    """

    covariance: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """of the coded columns about the silos' own means, `[D, D]` (`statistics/em.py`)"""
    dag: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """`[d, d]`"""
    tables: FloatArray = field(default_factory=lambda: np.empty(0))
    """P(variable | parents), family after family as in `parameters/tables.py`, each with the child's levels last"""
    rows: int = 0
    """to how many complete rows the cells that are there amount: the mean over all pairs of columns of the rows in
    which both are there"""


NOTHING_FILLED = Filling()
