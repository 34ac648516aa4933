"""FDBNL and PFDBNL (Chen, Ma & Yue 2025, Algorithms 1 and 2): dynamic networks, common to all silos and one per silo.

The model is x_t = x_t W + x_{t−1} A₁ + ... + x_{t−p} A_p + u. W and A = [A₁; ...; A_p] are stacked in B = [W; A], so
the least squares of a silo are those of its windows [x_t, x_{t−1}, ..., x_{t−p}].
"""

from collections.abc import Callable, Sequence

import numpy as np

from .notears_admm import Matrix, acyclicity, minimise, nearest_acyclic


def windows(series: Matrix, lags: int) -> Matrix:
    """The windows [x_t, x_{t−1}, ..., x_{t−lags}] of one series, `[n_rows − lags, (lags + 1)·d]`."""
    rows = len(series)
    return np.hstack([series[lags - k : rows - k] for k in range(lags + 1)])


def fdbnl(
    silos: Sequence[Matrix],
    *,
    lags: int = 1,
    l1: float = 0.5,
    l1_lagged: float = 0.5,
    rho1: float = 1.0,
    rho2: float = 1.0,
    phi1: float = 1.6,
    phi2: float = 1.1,
    rounds: int = 100,
) -> Matrix:
    """B = [W; A], `[(lags + 1)·d, d]`, by Algorithm 1; the paper drops its entries of at most 0.3.

    `l1` is λ_W, `l1_lagged` λ_A, and `phi1` and `phi2` are the factors of ρ₁ and ρ₂ from round to round. The closed
    form is that of §7.4 with B_jj = 0, because no variable is its own parent within a time step.
    """
    d, m = silos[0].shape[1], (lags + 1) * silos[0].shape[1]
    X = [windows(series, lags) for series in silos]
    S = [x.T @ x / len(x) for x in X]
    B, alpha, beta = np.zeros((m, d)), 0.0, [np.zeros((m, d)) for _ in silos]
    for _ in range(rounds):
        own = [closed_form(S_k, rho2 * B - b + S_k[:, :d], rho2) for S_k, b in zip(S, beta, strict=True)]  # Eq. 2
        W = nearest_acyclic([o[:d] for o in own], [b[:d] for b in beta], B[:d], alpha, rho1, rho2, l1)  # Eq. 3
        mean = np.mean([o + b / rho2 for o, b in zip(own, beta, strict=True)], axis=0)[d:]
        A = np.sign(mean) * np.maximum(np.abs(mean) - l1_lagged / (rho2 * len(silos)), 0.0)  # Eq. 3 without h
        B = np.vstack([W, A])
        beta = [b + rho2 * (o - B) for b, o in zip(beta, own, strict=True)]  # Eq. 4
        alpha += rho1 * acyclicity(W)[0]
        rho1, rho2 = phi1 * rho1, phi2 * rho2
    return B


def closed_form(S: Matrix, right: Matrix, rho2: float) -> Matrix:
    """The solution B of (S + ρ₂I)B = `right` `[m, d]` under B_jj = 0."""
    inverse = np.linalg.inv(S + rho2 * np.eye(len(S)))
    B = inverse @ right
    d = right.shape[1]
    return np.asarray(B - inverse[:, :d] * (np.diag(B) / np.diag(inverse)[:d]))


def pfdbnl(
    silos: Sequence[Matrix],
    *,
    lags: int = 1,
    mu: float = 0.1,
    l1: float = 0.1,
    rho1: float = 1.0,
    rho2: float = 1.0,
    phi1: float = 1.6,
    phi2: float = 1.1,
    rounds: int = 40,
    draw: Callable[[int], Sequence[int]] | None = None,
) -> tuple[Matrix, list[Matrix]]:
    """The consensus B and the B_k of all silos, `[(lags + 1)·d, d]` each, by Algorithm 2.

    `draw` maps the number of finished rounds to the silos that take part in the next one; by default all do.
    """
    d, m = silos[0].shape[1], (lags + 1) * silos[0].shape[1]
    X = [windows(series, lags) for series in silos]
    S = [x.T @ x / len(x) for x in X]
    B, alpha = np.zeros((m, d)), 0.0
    own, near, beta = ([np.zeros((m, d)) for _ in silos] for _ in range(3))
    for number in range(rounds):
        chosen = range(len(silos)) if draw is None else draw(number)
        for k in chosen:
            own[k] = personal(S[k], near[k], own[k], mu, l1, alpha, rho1)  # Eq. 10
            near[k] = (2 * mu * own[k] + rho2 * B - beta[k]) / (2 * mu + rho2)  # Eq. 14, with the missing brackets
        B = np.mean([near[k] + beta[k] / rho2 for k in chosen], axis=0)  # Eq. 12
        for k in chosen:
            beta[k] = beta[k] + rho2 * (near[k] - B)  # Eq. 13
        alpha += rho1 * float(np.mean([acyclicity(own[k][:d])[0] for k in chosen]))
        rho1, rho2 = phi1 * rho1, phi2 * rho2
    return B, own


def personal(S: Matrix, near: Matrix, start: Matrix, mu: float, l1: float, alpha: float, rho1: float) -> Matrix:
    """argmin_B ℓ(B) + μ‖B − `near`‖² + αh(W) + ρ₁/2 h(W)² + λ‖B‖₁ (Eq. 10), by L-BFGS from `start`."""
    d = near.shape[1]

    def smooth(B: Matrix) -> tuple[float, Matrix]:
        h, slope = acyclicity(B[:d])
        value = 0.5 * np.vdot(B, S @ B) - np.vdot(B, S[:, :d]) + mu * ((B - near) ** 2).sum()
        gradient = S @ B - S[:, :d] + 2 * mu * (B - near)
        gradient[:d] += (alpha + rho1 * h) * slope
        return float(value + alpha * h + rho1 / 2 * h * h), gradient

    return minimise(smooth, start, l1)
