"""The silo's own problem of PFDBNL: a dynamic network of its own, near the one that all silos agree on.

argmin ℓ(B) + μ‖B − B̃‖² + αh(W) + ρ₁/2 h(W)² + Σ λ_i|B_ij|,  B = [W; A₁; A₂; ...]  (Chen, Ma & Yue 2025, Eq. 10),
by L-BFGS-B on B = B⁺ − B⁻ with both parts nonnegative, as NOTEARS does. ℓ is half the mean squared residual, from the
second moments of the silo's windows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ..admm.acyclicity import acyclicity
from ..core.schema import FloatArray


@dataclass(frozen=True)
class Acyclic:
    """The price of cycles: αh + ρ₁/2 h²."""

    alpha: float
    rho1: float

    def value_and_gradient(self, W: FloatArray) -> tuple[float, FloatArray]:
        """Return the price of `W` `[d, d]`, and its gradient."""
        h, gradient = acyclicity(W)
        return self.alpha * h + 0.5 * self.rho1 * h * h, (self.alpha + self.rho1 * h) * gradient


def solve(
    S: FloatArray, near: FloatArray, start: FloatArray, mu: float, l1: FloatArray, acyclic: Acyclic, steps: int
) -> FloatArray:
    """Return B `[m, d]`, from `start`, by at most so many L-BFGS-B steps.

    `S` `[m, m]` are second moments of windows, `near` B̃ `[m, d]`, `l1` λ in each row `[m]`.
    """
    m, d = near.shape
    rows, columns = np.nonzero(~np.eye(m, d, dtype=bool))
    price = l1[rows]

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        B = np.zeros((m, d))
        B[rows, columns] = z[: len(rows)] - z[len(rows) :]
        apart = B - near
        fitted = S @ B
        cyclic, slope = acyclic.value_and_gradient(B[:d])
        value = 0.5 * np.vdot(B, fitted) - np.vdot(B, S[:, :d]) + mu * np.vdot(apart, apart) + cyclic
        gradient = fitted - S[:, :d] + 2 * mu * apart
        gradient[:d] += slope
        flat = gradient[rows, columns]
        return float(value + price @ z[: len(rows)] + price @ z[len(rows) :]), np.concatenate(
            [flat + price, price - flat]
        )

    flat = start[rows, columns]
    found = minimize(
        objective,
        np.concatenate([np.maximum(flat, 0), np.maximum(-flat, 0)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * len(rows)),
        options={"maxiter": steps, "maxfun": 2 * steps},
    )
    B = np.zeros((m, d))
    B[rows, columns] = found.x[: len(rows)] - found.x[len(rows) :]
    return B
