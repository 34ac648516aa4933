"""The acyclicity measure h of NOTEARS, and the server's step, which finds a matrix with few cycles near a target.

h(W) = tr(exp(W∘W)) − d is zero for a DAG and for no other graph (Zheng et al. 2018). Two facts make the computation of
h fast and prevent overflow. First, only edges on cycles affect h: edges between strongly connected components add
nothing to the trace. So `CyclicPart` computes the exponential only of the submatrix of the nodes on cycles. Second, the
trace is the same for W and DWD⁻¹ with a diagonal D. So rescaling every variable by its root mean square leaves h
unchanged, but prevents overflow of the exponential if units differ.

The server's step (`consensus_step`) finds the matrix nearest to the silos' mean with few cycles (Fassy El Fehri et al.,
Eq. 5; Ng & Zhang 2022, Eq. 3):

    W ← argmin ½ Σ_ij c_i (W_ij − B̄_ij)² + Σ_ij λ_i |W_ij| + α h(W) + ρ₁/2 h(W)²

h grows with every W_ij², so the penalty pulls each entry towards zero and never across it. This makes the step cheap
and exact (Fassy El Fehri et al., §4.1). Soft-thresholding B̄ first accounts for the ℓ₁ term. Then each W_ij lies
between zero and the thresholded B̄_ij. So a zero stays zero, and an entry on no cycle equals the thresholded B̄_ij.
Newton steps find the entries on cycles, with the part of the Hessian whose inverse is cheap: a diagonal and one outer
product (`_newton_step`). A step costs one exponential. Five steps from the last round's W come as near to the minimum
as 20 steps of L-BFGS.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from ..core.schema import FloatArray
from ..graphs.dag import edges_on_cycles


@dataclass(frozen=True)
class CyclicPart:
    """The entries of a support that are on cycles."""

    entries: NDArray[np.bool_]
    """`[n_variables, n_variables]`: whether each entry is on a cycle"""
    rows: NDArray[np.intp]
    """the row of each entry in the submatrix of the nodes on cycles"""
    columns: NDArray[np.intp]
    size: int
    """number of nodes on cycles"""
    balance: FloatArray
    """for each entry (i, j), the ratio of the units of its variables: D_i/D_j"""

    def h(self, w: FloatArray) -> tuple[float, FloatArray]:
        """The measure h and its coefficients 2 exp(W∘W)ᵀ for the weights `w` of the entries, in the order of `entries`.

        The gradient of h is the coefficients times `w`.
        """
        squares = np.zeros((self.size, self.size))
        squares[self.rows, self.columns] = (w * self.balance) ** 2
        exponential = expm(squares)
        return float(np.trace(exponential)) - self.size, 2 * self.balance**2 * exponential[self.columns, self.rows]


def cyclic_part(support: NDArray[np.bool_], units: FloatArray) -> CyclicPart:
    """The entries of `support` `[n_variables, n_variables]` inside its strongly connected components.

    `units` `[n_variables]`, above 0, are the units of the variables.
    """
    entries = edges_on_cycles(support)
    np.fill_diagonal(entries, False)
    rows, columns = np.nonzero(entries)
    nodes = np.unique(np.concatenate([rows, columns]))
    return CyclicPart(
        entries, np.searchsorted(nodes, rows), np.searchsorted(nodes, columns), len(nodes), units[rows] / units[columns]
    )


def acyclicity(W: FloatArray) -> tuple[float, FloatArray]:
    """h(W) and its gradient for `W` `[n_variables, n_variables]`."""
    part = cyclic_part(W != 0, np.ones(len(W)))
    gradient = np.zeros_like(W)
    h, coefficients = part.h(W[part.entries])
    gradient[part.entries] = coefficients * W[part.entries]
    return h, gradient


def soft_threshold(x: FloatArray, by: FloatArray | float) -> FloatArray:
    """The proximal point of `by`·|·| at `x`: sign(x)·max(|x| − by, 0)."""
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - by, 0.0))


MIN_GAIN = 1e-9
"""the descent of the server's step ends once a step decreases the objective by less than this share"""
MIN_STEP = 1e-6
"""the smallest share of a step that is tried before the descent ends"""


def consensus_step(
    target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, iterations: int
) -> tuple[FloatArray, float]:
    """W and h(W) for the (thresholded) mean `target`, by at most `iterations` steps of descent from `start`.

    `target` and `start` are `[n_variables, n_variables]`; `curvature` c is `[n_variables]`, one a row, above 0.
    """
    part = cyclic_part(target != 0, np.sqrt(curvature))
    W = np.where(part.entries, 0.0, target)
    if not part.size:
        return W, 0.0
    c, centre = curvature[np.nonzero(part.entries)[0]], target[part.entries]
    lower, upper = np.minimum(centre, 0.0), np.maximum(centre, 0.0)

    def objective(w: FloatArray) -> tuple[float, float, FloatArray]:
        h, coefficients = part.h(w)
        return float(0.5 * c @ (w - centre) ** 2 + alpha * h + 0.5 * rho1 * h * h), h, coefficients

    w = np.clip(start[part.entries], lower, upper)
    value, h, coefficients = objective(w)
    if not value < 0.5 * c @ centre**2:  # strong cycles, whose exponential may overflow: zero is nearer to the minimum
        w = np.zeros_like(w)
        value, h, coefficients = objective(w)
    for _ in range(iterations):
        pressure = (alpha + rho1 * h) * coefficients
        direction = _newton_step(c * (w - centre) + pressure * w, c + pressure, rho1, coefficients * w)
        before, step = value, 1.0
        while step >= MIN_STEP:
            tried = np.clip(w - step * direction, lower, upper)
            value, h_tried, coefficients_tried = objective(tried)
            if value < before:
                break
            step /= 2
        else:
            break
        w, h, coefficients = tried, h_tried, coefficients_tried
        if before - value < MIN_GAIN * value:
            break
    W[part.entries] = w
    return W, h


def _newton_step(gradient: FloatArray, diagonal: FloatArray, rho1: float, along: FloatArray) -> FloatArray:
    """The Newton step to subtract from the weights w, for this `gradient` of the objective and part of its Hessian.

    Let a be the coefficients of h and κ = α + ρ₁h. The step uses diag(c + κa) + ρ₁(a∘w)(a∘w)ᵀ, where `diagonal` is
    c + κa and `along` is a∘w, the gradient of h. It leaves out κw∘∂a, the change of the exponential, which is small
    where cycles are weak. The inverse of the part is a rank-one update of a diagonal (Sherman & Morrison 1950).
    """
    plain, scaled = gradient / diagonal, along / diagonal
    return np.asarray(plain - scaled * (rho1 * (along @ plain) / (1 + rho1 * (along @ scaled))))
