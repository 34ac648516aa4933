"""The fit without λ under a settled order: consensus ADMM in the metric of the model (ours).

Where graphs are dense, mean squares exceed what earlier variables leave of a variable by factors up to 10⁵. A consensus
that weighs all of an entry's mean square, ρ₂·m_i, then holds every silo near W, and a rule that compares changes of W
with the norm of W stops long before the weights are right. So the distance to W is measured in the covariance Σ that W
itself and the variances of its residuals imply (`model_order.py`), which is near the curvature of every silo's loss:

    silo:    β_p ← β_p + ρΣ(B_p − W)
             B_p ← argmin L_p(B) + ⟨β_p, B − W⟩ + ρ/2 tr((B − W)ᵀ Σ (B − W))
    server:  W ← (1/P) Σ_p B_p

Σ_p β_p begins at zero and stays there, so the mean needs no correction. ρ = √(d/n_p), n_p a silo's mean rows, is about
how far a silo's moments differ from those of all. A variable's column is at rest when the change of what it predicts is
small beside what is left of the variable; a round in this metric takes most of the error away, however dense the graph.

What leaves a silo: the changes of B_p, and the mean squares of its residuals under W, d numbers.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..secure.ring import FRACTION_BITS
from ..statistics.rounding import to_multiples
from .model_order import implied_covariance, least_squares


def strength(d: int, rows: float) -> float:
    """Return ρ = √(d/n_p), at most 1, for silos of so many `rows` on average."""
    return min(1.0, float(np.sqrt(d / rows)))


def dual_step(beta: FloatArray, apart: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """Return β_p + ρΣ(B_p − W) in the `free` entries, zero elsewhere; `metric` is ρΣ and `apart` B_p − W."""
    return np.where(free, beta + metric @ apart, 0.0)


def fitted(S: FloatArray, beta: FloatArray, W: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """Return the silo's B_p `[d, d]` for its moments `S`, in whole 2⁻³² parts: (S + ρΣ)B = S − β + ρΣW where `free`."""
    B = least_squares(S + metric, S - beta + metric @ W, free)
    return to_multiples(B, FRACTION_BITS)


def column_change(change: FloatArray, W: FloatArray, variances: FloatArray) -> float:
    """Return how far a `change` of W moves what a variable's column predicts, relative to its residuals: the largest.

    Both as deviations: √(ΔW_jᵀ Σ ΔW_j / v_j), with v the `variances` of the residuals under `W`.
    """
    moved = np.einsum("ij,ik,kj->j", change, implied_covariance(W, variances), change, optimize=True)
    return float(np.sqrt(np.maximum(moved / variances, 0.0).max()))
