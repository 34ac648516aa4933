"""Possible-d-sep sets: where FCI looks for separating sets when there may be latent variables.

Source: Spirtes, Glymour & Scheines 2000, §6.7; Colombo et al. 2012, Definition 3.3.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .orientation import classify
from .search import SeparatorSearch


def possible_d_sep(search: SeparatorSearch) -> NDArray[np.bool_]:
    """Return the possible-d-sep set of every variable, `[d, d]` by rows, in the skeleton found so far.

    k is in the set of i if a path leads from i to k on which every inner variable is a collider, or its two neighbours
    on the path are joined. Colliders are identified by the separating sets found first; where background knowledge
    alone keeps the ends of a triple apart, there is none, and it may be a collider.
    """
    heads = np.zeros_like(search.joined)
    triples = classify(search, "sepset")
    for i, k, j in triples.colliders | triples.ambiguous:
        heads[i, k] = heads[j, k] = True
    reached: NDArray[np.bool_] = _reach(search.joined, heads)
    return reached


@njit(cache=True)
def _reach(joined, heads):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    d = len(joined)
    reached = np.zeros((d, d), np.bool_)
    seen = np.zeros((d, d), np.int64)
    waiting = np.empty((d * d, 2), np.int64)
    for start in range(d):
        n = 0
        for v in range(d):
            if joined[start, v]:
                waiting[n] = start, v
                n += 1
                reached[start, v] = True
        while n:
            n -= 1
            before, here = waiting[n]
            for after in range(d):
                onward = joined[here, after] and after not in (before, start) and seen[here, after] != start + 1
                passes = joined[before, after] or (heads[before, here] and heads[after, here])
                if onward and passes:
                    seen[here, after] = start + 1
                    reached[start, after] = True
                    waiting[n] = here, after
                    n += 1
    return reached
