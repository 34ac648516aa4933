"""The summary graph of a dynamic structure: who drives whom, at whatever lag."""

import numpy as np
from numpy.typing import NDArray

from .structure import Structure


def summary(structure: Structure) -> Structure:
    """Return the structure with i → j where i drives j within one time or at any lag, `[n_variables, n_variables]`.

    The weight of i → j is the one of greatest magnitude among W and all A_k, and so is its score; a variable's own past
    is left out. The summary of an acyclic dynamic structure may have cycles, also of two variables, so its kind is
    "dag" in any case, and its edges are all directed. A structure without lags is its own summary.
    """
    if structure.lagged is None:
        return structure
    scores = None
    if structure.scores is not None or structure.lagged_scores is not None:
        within = structure.weights if structure.scores is None else structure.scores
        across = structure.lagged if structure.lagged_scores is None else structure.lagged_scores
        scores = _greatest(within, across)
    return Structure(structure.variables, _greatest(structure.weights, structure.lagged), "dag", scores)


def _greatest(within: NDArray[np.float64], lagged: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entry of greatest magnitude of `within` `[d, d]` and `lagged` `[lags, d, d]`, 0 on the diagonal."""
    slices = np.concatenate([within[None], lagged])
    strongest = np.abs(slices).argmax(axis=0)
    chosen: NDArray[np.float64] = np.take_along_axis(slices, strongest[None], axis=0)[0]
    return chosen * ~np.eye(len(within), dtype=np.bool_)
