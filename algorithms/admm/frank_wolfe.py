"""Fed-BNSL-FW: consensus ADMM whose silos solve their lasso by Frank-Wolfe.

Sources: Fassy El Fehri et al., Appendix C.1; Jaggi 2013. It is a baseline that shows why PGCD (`pgcd.py`) is needed.
Frank-Wolfe keeps B within an ℓ₁ ball, and moves towards one vertex of the ball in each step. It chooses the vertex by
the raw gradient, which is largest for the variables of largest scale. So without standardisation it selects the wrong
entries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiled import njit
from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray
from ..core.settings import Count, Factor, NonNegative, Positive
from .consensus import Broadcast, Reply
from .fed_sparse import consensus_of
from .problem import Lasso
from .settings import RefinedSettings


@dataclass(frozen=True)
class FedFrankWolfe(RefinedSettings):
    """Settings of `fed-frank-wolfe`; the defaults are the paper's, because the method is the paper's baseline."""

    rho1: Positive = 1000 / 8
    rho1_growth: Factor = 1.0
    rho2: Positive = 1.0
    scaled: bool = False
    fix_order: bool = False
    send_threshold: NonNegative = 0.0
    radius: Positive = 1.25
    """largest ℓ₁ norm of B per variable (the mean absolute weight in ±[0.5, 2] times one edge per variable)"""
    local_steps: Count = 200
    """Frank-Wolfe steps of a silo per round"""


def frank_wolfe(problem: Lasso, radius: float, steps: int) -> FloatArray:
    """B, `[d, d]`, after at most `steps` steps with exact line search over ‖B‖₁ ≤ `radius` (allowed entries only).

    A step costs O(d²): S·B is updated with B, and a vertex adds a multiple of one column of S to one column of S·B.
    """
    B = problem.start * min(1.0, radius / max(float(np.abs(problem.start).sum()), 1e-300))
    _walk(problem.S, B, problem.S @ B, problem.linear, problem.r, problem.allowed, radius, steps)
    return B


@njit(cache=True)
def _steepest(S, B, SB, linear, r, allowed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The allowed entry with the largest gradient, that gradient, and ⟨gradient, B⟩ over all allowed entries."""
    d = len(S)
    row, column, steepest, inner = 0, 0, 0.0, 0.0
    for i in range(d):
        for j in range(d):
            if allowed[i, j]:
                g = SB[i, j] - S[i, j] + linear[i, j] + r[i] * B[i, j]
                inner += g * B[i, j]
                if abs(g) > abs(steepest):
                    row, column, steepest = i, j, g
    return row, column, steepest, inner


@njit(cache=True)
def _walk(S, B, SB, linear, r, allowed, radius, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for _ in range(steps):
        i, j, steepest, inner = _steepest(S, B, SB, linear, r, allowed)
        vertex = -radius * np.sign(steepest)
        slope = inner - steepest * vertex  # −⟨G, vertex − B⟩
        # The curvature is ⟨D, (S + R)D⟩ for D = vertex − B.
        own = S[i, i] + r[i]
        curvature = vertex * vertex * own - 2 * vertex * (SB[i, j] + r[i] * B[i, j])
        for k in range(len(S)):
            curvature += (B[k] * (SB[k] + r[k] * B[k])).sum()
        if slope <= 0 or curvature <= 0:
            return
        step = min(1.0, slope / curvature)
        B *= 1 - step
        SB *= 1 - step
        B[i, j] += step * vertex
        SB[:, j] += step * vertex * S[:, i]


def build_frank_wolfe(settings: FedFrankWolfe) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Fed-BNSL-FW."""

    def solve(problem: Lasso) -> FloatArray:
        return frank_wolfe(problem, settings.radius * len(problem.S), settings.local_steps)

    return consensus_of(settings, solve, l1_at_server=False)
