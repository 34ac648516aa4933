"""The server's step of consensus ADMM: the matrix nearest to the silos' mean with few cycles.

Source: Fassy El Fehri et al., Eq. 5, Ng & Zhang 2022, Eq. 3.

W ← argmin ½ Σ_ij c_i (W_ij − B̄_ij)² + Σ_ij λ_i |W_ij| + α h(W) + ρ₁/2 h(W)²

h grows with every W_ij², so the penalty pulls each entry towards zero and never across it. Two things follow, which
make the step cheap and exact: the ℓ₁ term is a soft threshold of B̄ beforehand, after which an entry lies between zero
and B̄'s; and one that is zero there stays zero (Fassy El Fehri et al., §4.1). What is on no cycle of the support equals
B̄.
"""

import numpy as np
from scipy.optimize import Bounds, minimize

from ..core.schema import FloatArray
from .acyclicity import cyclic_part


def soft_threshold(x: FloatArray, by: FloatArray | float) -> FloatArray:
    """Return the proximal point of `by`·|·| at `x`: sign(x)·max(|x| − by, 0)."""
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - by, 0.0))


def consensus_step(
    target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, iterations: int
) -> tuple[FloatArray, float]:
    """Return W and h(W) for the (thresholded) mean `target`, by at most `iterations` L-BFGS steps from `start`.

    `target` and `start` are `[n_variables, n_variables]`; `curvature` c is `[n_variables]`, one a row, above 0. The
    variables are scaled by √c, which makes the quadratic part a unit sphere.
    """
    part = cyclic_part(target != 0, np.sqrt(curvature))
    W = np.where(part.entries, 0.0, target)
    if not part.size:
        return W, 0.0
    root = np.sqrt(curvature)[np.nonzero(part.entries)[0]]
    centre = target[part.entries] * root
    bounds = Bounds(np.minimum(centre, 0.0), np.maximum(centre, 0.0))

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        h, gradient = part.h(z / root)
        slack = z - centre
        value = 0.5 * slack @ slack + alpha * h + 0.5 * rho1 * h * h
        return float(value), slack + (alpha + rho1 * h) * gradient / root

    found = minimize(
        objective,
        np.clip(start[part.entries] * root, bounds.lb, bounds.ub),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": iterations, "maxfun": 10 * iterations},
    )
    W[part.entries] = found.x / root
    return W, part.h(W[part.entries])[0]
