"""Heterogeneous silos by a hidden surrogate variable (003 Def. 1).

C ∈ [K] is a child of a set S of variables, and silo i holds the rows with C = i. Together the silos have the true
distribution, each by itself has a biased one. S = ∅ is the homogeneous case.
"""

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput

from ..splitting.parts import LEAST, Parts, equal
from .random_network import dirichlet_rows
from .sampling import Codes, cumulated, inverse_cdf


def surrogate_set(variables: int, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw S, `size` of the variables, sorted. Raises `BadInput` if there are not so many."""
    if not 0 <= size <= variables:
        raise BadInput(f"parents: {size} is not between 0 and {variables}, the number of variables")
    return np.sort(rng.choice(variables, size=size, replace=False))


def by_surrogate(given: Codes, silos: int, concentration: float | None, rng: np.random.Generator) -> Parts:
    """Return the row numbers of each silo, for the columns S of the table, `given` [n_rows, |S|].

    P(C | S) is a Dirichlet draw for every configuration of S that occurs (see `random_network` for `concentration`).
    With S = ∅ the rows are shuffled and dealt in equal parts. Raises `BadInput` if a silo gets fewer than two rows.
    """
    if given.shape[1] == 0:
        return equal(len(given), silos, rng)
    configurations, row = np.unique(given, axis=0, return_inverse=True)
    table = cumulated(dirichlet_rows(len(configurations), silos, concentration, rng))
    owner = inverse_cdf(table, row.reshape(-1), rng.random(len(given)))
    parts = [np.flatnonzero(owner == silo) for silo in range(silos)]
    least = min(range(silos), key=lambda silo: len(parts[silo]))
    if len(parts[least]) < LEAST:
        raise BadInput(
            f"silos: {len(parts[least])} of {len(given)} rows have C = {least + 1}, a silo needs {LEAST}: "
            "give more rows, fewer silos, more parents or a larger concentration"
        )
    return parts
