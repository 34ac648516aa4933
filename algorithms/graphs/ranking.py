"""How well edge strengths rank the true edges above the others, at all thresholds at once: AUROC and AUPR."""

import numpy as np
from numpy.typing import NDArray


def auroc(strengths: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return the area under the ROC curve, both `[n_pairs]`: the chance that a positive outranks a negative, ties half.

    None if there is no positive or no negative.
    """
    found, taken = _by_threshold(strengths, positive)
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    tpr = np.concatenate([[0.0], found / n_positive])
    fpr = np.concatenate([[0.0], (taken - found) / n_negative])
    return float(np.trapezoid(tpr, fpr))


def average_precision(strengths: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return Σ_n (R_n − R_{n−1}) P_n over the distinct strengths, from the greatest down: AUPR without interpolation.

    Equal strengths form one step, as in scikit-learn's `average_precision_score`. None if there is no positive.
    """
    found, taken = _by_threshold(strengths, positive)
    n_positive = int(positive.sum())
    if n_positive == 0:
        return None
    return float(np.sum(np.diff(found, prepend=0.0) / n_positive * found / taken))


def _by_threshold(
    strengths: NDArray[np.float64], positive: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how many positives, and how many of all, have at least each distinct strength, the greatest first."""
    distinct, level = np.unique(strengths, return_inverse=True)
    found = np.bincount(level, weights=positive, minlength=len(distinct))[::-1].cumsum()
    taken = np.bincount(level, minlength=len(distinct))[::-1].cumsum().astype(np.float64)
    return found, taken
