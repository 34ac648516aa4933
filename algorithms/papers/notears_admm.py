"""NOTEARS-ADMM (Ng & Zhang 2022, Algorithm 1): the silos fit B_k in closed form, and the server makes W acyclic.

The variables are centred by the caller, if at all. B[i, j] and W[i, j] are the weight of the edge i → j.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm, solve
from scipy.optimize import minimize

Matrix = NDArray[np.float64]


def notears_admm(
    silos: Sequence[Matrix],
    *,
    l1: float = 0.01,
    rho1: float = 0.001,
    rho2: float = 0.001,
    gamma1: float = 1.75,
    gamma2: float = 1.25,
    rounds: int = 200,
) -> Matrix:
    """W, `[d, d]`, after all rounds; the paper drops its entries of at most 0.3.

    `l1` is λ. `gamma1` and `gamma2` are the factors of ρ₁ and ρ₂ from round to round; the values are those of the
    authors' program.
    """
    d, n = silos[0].shape[1], sum(len(X) for X in silos)
    S = [X.T @ X / n for X in silos]
    W, alpha, beta = np.zeros((d, d)), 0.0, [np.zeros((d, d)) for _ in silos]
    for _ in range(rounds):
        B = [np.asarray(solve(S_k + rho2 * np.eye(d), rho2 * W - b + S_k)) for S_k, b in zip(S, beta, strict=True)]
        W = nearest_acyclic(B, beta, W, alpha, rho1, rho2, l1)  # Eq. 3, after Eq. 8
        beta = [b + rho2 * (B_k - W) for b, B_k in zip(beta, B, strict=True)]  # Eq. 4
        alpha += rho1 * acyclicity(W)[0]  # Eq. 5
        rho1, rho2 = min(gamma1 * rho1, 1e16), min(gamma2 * rho2, 1e16)  # Eq. 6 and 7; limits of the program
    return W


def acyclicity(W: Matrix) -> tuple[float, Matrix]:
    """h(W) = tr(exp(W∘W)) − d, which is zero for a DAG and for no other graph, and its gradient (Zheng et al. 2018)."""
    exponential = expm(W * W)
    return float(np.trace(exponential)) - len(W), 2 * exponential.T * W


def nearest_acyclic(
    B: Sequence[Matrix], beta: Sequence[Matrix], start: Matrix, alpha: float, rho1: float, rho2: float, l1: float
) -> Matrix:
    """argmin_W λ‖W‖₁ + αh(W) + ρ₁/2 h(W)² + Σ_k ⟨β_k, B_k − W⟩ + ρ₂/2 Σ_k ‖B_k − W‖² (Eq. 3), by L-BFGS from `start`.

    The diagonal of W is zero. The paper uses a subgradient of λ‖W‖₁.
    """
    K = len(B)
    mean = np.mean([B_k + b / rho2 for B_k, b in zip(B, beta, strict=True)], axis=0)

    def smooth(W: Matrix) -> tuple[float, Matrix]:
        h, slope = acyclicity(W)
        value = alpha * h + rho1 / 2 * h * h + K * rho2 / 2 * ((W - mean) ** 2).sum()
        return value, (alpha + rho1 * h) * slope + K * rho2 * (W - mean)

    return minimise(smooth, start, l1)


def minimise(smooth: Callable[[Matrix], tuple[float, Matrix]], start: Matrix, l1: float) -> Matrix:
    """Argmin f(B) + λ‖B‖₁ under B_jj = 0, `[m, d]`, by L-BFGS from `start`; `smooth` returns f and its gradient.

    λ‖B‖₁ is not smooth. So B is B⁺ − B⁻ with both parts nonnegative (Zheng et al. 2018).
    """
    shape = start.shape

    def objective(parts: Matrix) -> tuple[float, Matrix]:
        positive, negative = parts.reshape(2, *shape)
        value, gradient = smooth(positive - negative)
        return value + l1 * float(parts.sum()), np.concatenate([(l1 + gradient).ravel(), (l1 - gradient).ravel()])

    found = minimize(
        objective,
        np.concatenate([np.maximum(start, 0).ravel(), np.maximum(-start, 0).ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 0.0 if i == j else None) for _ in range(2) for i in range(shape[0]) for j in range(shape[1])],
        options={"maxiter": 15_000, "maxfun": 15_000, "ftol": 1e-15, "gtol": 1e-9},
    )
    positive, negative = found.x.reshape(2, *shape)
    return np.asarray(positive - negative)
