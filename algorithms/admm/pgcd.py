"""Proximal greedy coordinate descent for the silo's lasso (Fassy El Fehri et al., §4.2, Eq. 8-9), a step in O(d).

Score of entry (i, j): √M_i |prox(B_ij − G_ij/M_i) − B_ij|, with G the gradient and M_i = S_ii + r_i the curvature of
ROW i (the paper's Eq. 14 has the column; with it noise-free learning diverges). The best entry takes a prox step of
size γ/M_i. A step on B_ij changes column j of G alone, by S[:, i]·δ, so only that column's scores are looked at again
and each column's best is remembered: that invariant makes a step O(d) rather than O(d²).
"""

import numpy as np
from numba import njit

from ..core.schema import FloatArray
from .problem import Lasso


def pgcd(problem: Lasso, gamma: float, tolerance: float, steps: int) -> FloatArray:
    """Return the minimiser of `problem`, `[m, d]`, from its start: until no score exceeds `tolerance`, or `steps`."""
    B = problem.start.copy()
    G = problem.S @ B - problem.S[:, : B.shape[1]] + problem.linear + problem.r[:, None] * B
    M = np.diag(problem.S) + problem.r
    _descend(problem.S, B, np.asfortranarray(G), M, problem.r, problem.l1, problem.allowed, gamma, tolerance, steps)
    return B


@njit(cache=True)
def _prox(x: float, by: float) -> float:
    return x - by if x > by else (x + by if x < -by else 0.0)


@njit(cache=True)
def _best_in_column(j, B, G, M, l1, allowed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    best, row = 0.0, 0
    for i in range(B.shape[0]):
        if allowed[i, j]:
            score = np.sqrt(M[i]) * abs(_prox(B[i, j] - G[i, j] / M[i], l1[i] / M[i]) - B[i, j])
            if score > best:
                best, row = score, i
    return best, row


@njit(cache=True)
def _descend(S, B, G, M, r, l1, allowed, gamma, tolerance, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    m, d = B.shape
    best, row = np.empty(d), np.empty(d, np.int64)
    for j in range(d):
        best[j], row[j] = _best_in_column(j, B, G, M, l1, allowed)
    for _ in range(steps):
        j = int(np.argmax(best))
        if best[j] <= tolerance:
            return
        i = row[j]
        size = gamma / M[i]
        moved = _prox(B[i, j] - size * G[i, j], size * l1[i])
        delta = moved - B[i, j]
        B[i, j] = moved
        for k in range(m):
            G[k, j] += S[i, k] * delta
        G[i, j] += r[i] * delta
        best[j], row[j] = _best_in_column(j, B, G, M, l1, allowed)
