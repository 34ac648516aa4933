"""Fed-Sparse-BNSL (Fassy El Fehri et al., Algorithm 1): NOTEARS-ADMM whose ℓ₁ term is at the silos, solved by PGCD."""

from collections.abc import Sequence

import numpy as np

from .notears_admm import Matrix, acyclicity, nearest_acyclic


def fed_sparse(
    silos: Sequence[Matrix],
    *,
    l1: float = 0.1,
    rho1: float = 1000.0,
    rho2: float = 1.0,
    gamma: float = 0.5,
    rounds: int = 100,
    steps: int = 100_000,
    tolerance: float = 1e-3,
) -> Matrix:
    """W, `[d, d]`, after all rounds; the paper drops its entries of at most 0.3.

    `l1` is λ, `rounds` T and `steps` K. The values are those of Appendix B.3.2. A silo stops earlier if no score
    exceeds `tolerance`.
    """
    d = silos[0].shape[1]
    S = [X.T @ X / len(X) for X in silos]
    zero = np.zeros((d, d))
    W, alpha, B, beta = zero, 0.0, [zero for _ in silos], [zero for _ in silos]
    for _ in range(rounds):
        B = [pgcd(*silo, W, l1, rho2, gamma, steps, tolerance) for silo in zip(S, B, beta, strict=True)]  # Eq. 4
        W = nearest_acyclic(B, beta, W, alpha, rho1, rho2, l1=0.0)  # Eq. 5
        alpha += rho1 * acyclicity(W)[0]  # Eq. 6
        beta = [b + rho2 * (B_p - W) for b, B_p in zip(beta, B, strict=True)]  # Eq. 7
    return W


def pgcd(
    S: Matrix,
    start: Matrix,
    beta: Matrix,
    W: Matrix,
    l1: float,
    rho2: float,
    gamma: float,
    steps: int,
    tolerance: float,
) -> Matrix:
    """Proximal greedy coordinate descent on ½tr((I − B)ᵀS(I − B)) + λ‖B‖₁ + ⟨β, B − W⟩ + ρ₂/2 ‖B − W‖² (Eq. 8-9).

    Each step takes the entry of the highest score. M_ij is S_ii + ρ₂: the printed Eq. 14 has S_jj, with which the
    descent diverges.
    """
    d, B = len(S), start.copy()
    M = (np.diag(S) + rho2)[:, None]
    allowed = ~np.eye(d, dtype=bool)
    for _ in range(steps):
        G = S @ (B - np.eye(d)) + beta + rho2 * (B - W)
        scores = allowed * np.sqrt(M) * np.abs(prox(B - G / M, l1 / M) - B)  # Eq. 8
        i, j = np.unravel_index(scores.argmax(), scores.shape)
        if scores[i, j] <= tolerance:
            break
        B[i, j] = prox(B[i, j] - gamma * G[i, j] / M[i, 0], gamma * l1 / M[i, 0])  # Eq. 9
    return B


def prox(x: Matrix, by: Matrix | float) -> Matrix:
    """Soft thresholding, sign(x)·max(|x| − by, 0)."""
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - by, 0.0))
