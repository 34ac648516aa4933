"""Unshielded triples of a skeleton: independences decide which of them are colliders."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .skeleton import VStructure


def unshielded_triples(joined: NDArray[np.bool_]) -> list[VStructure]:
    """Return all (i, k, j), i < j, with k joined to i and to j and these two not joined; `joined` is symmetric."""
    neighbours = [np.flatnonzero(row).tolist() for row in joined]
    return [(i, k, j) for k, around in enumerate(neighbours) for i, j in combinations(around, 2) if not joined[i, j]]
