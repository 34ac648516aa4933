"""How far the lagged edges of a dynamic structure are from the true ones: A of Chen, Ma & Yue (2025, §7), apart from W.

An entry of A is an edge or none, and time gives its direction: there is nothing to reverse.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .edge_counts import Metrics, rates
from .lagged import lagged_name
from .lagged_edges import lagged_of, padded
from .ranking import auroc, average_precision
from .structure import Structure

PREFIX = "lagged_"


def compare_lagged(learned: Structure, truth: Structure, *, own_lags: bool = False) -> Metrics:
    """Return how the lagged edges of `learned` differ from those of `truth`, over the same variables in one order.

    Lags that only one of the two has count as empty in the other.

    - `lagged_shd`: entries of A `[lags, d, d]` that are an edge in only one of the two. `lagged_edges`,
      `lagged_true_edges`, of which `lagged_correct`, `lagged_extra`, `lagged_missing`; `lagged_tpr`, `lagged_fdr`,
      `lagged_precision` and `lagged_f1` made of these. All of them count the edges from a variable's own past.
    - `lagged_auroc`, `lagged_aupr`: of |lagged_scores|, or |lagged| where there are no scores, over all entries but the
      own lags. With `own_lags` these are ranked, too. Nearly every variable depends on its own past: on the fMRI data
      of Chen, Ma & Yue the identity matrix alone, which has learned nothing, then has an AUROC of .73.

    Raises BadInput if a score is NaN.
    """
    lags = max(learned.lags, truth.lags)
    found, true = lagged_of(learned, lags) != 0, lagged_of(truth, lags) != 0
    correct, n_learned, n_true = int((found & true).sum()), int(found.sum()), int(true.sum())
    figures: Metrics = {
        "shd": n_learned + n_true - 2 * correct,
        "edges": n_learned,
        "true_edges": n_true,
        "correct": correct,
        "extra": n_learned - correct,
        "missing": n_true - correct,
        **rates(correct, n_learned - correct, n_learned, n_true),
    }
    ranked = np.full(true.shape, True) if own_lags else np.broadcast_to(~np.eye(true.shape[1], dtype=bool), true.shape)
    strengths = _strengths(learned, lags)
    figures |= {
        "auroc": auroc(strengths[ranked], true[ranked]),
        "aupr": average_precision(strengths[ranked], true[ranked]),
    }
    return {PREFIX + name: value for name, value in figures.items()}


def _strengths(learned: Structure, lags: int) -> NDArray[np.float64]:
    """Return how strong each lagged edge is, `[lags, d, d]`; raise BadInput where that is NaN."""
    scores = learned.lagged_scores
    strengths = np.abs(lagged_of(learned, lags) if scores is None else padded(scores, lags))
    if np.isnan(strengths).any():
        k, i, j = np.argwhere(np.isnan(strengths))[0]
        names = learned.variables
        raise BadInput(f"the learned strength of {lagged_name(names[i], k + 1)} -> {names[j]} is NaN")
    return strengths
