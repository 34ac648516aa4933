"""Fed-BNSL-FW: consensus ADMM whose silos solve their lasso by Frank-Wolfe.

Source: Fassy El Fehri et al., Appendix C.1; Jaggi 2013.

A baseline that shows why PGCD is needed. Frank-Wolfe keeps ‖B‖₁ within a ball and moves towards one vertex of it a
step. A vertex is chosen by the raw gradient, which is largest where variables have the largest scale, so on data that
is not standardised the ball is spent on the wrong entries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray
from ..errors import require
from .algorithm import consensus_of
from .messages import Broadcast, Reply
from .problem import Lasso
from .settings import RefinedSettings


@dataclass(frozen=True)
class FedFrankWolfe(RefinedSettings):
    """Settings of `fed-frank-wolfe`; the paper's surroundings are the default, as it is the paper's baseline."""

    rho1: float = 1000 / 8
    rho1_growth: float = 1.0
    rho2: float = 1.0
    scaled: bool = False
    settle: bool = False
    hold: float = 0.0
    radius: float = 1.25
    """ℓ₁ norm allowed to B, a variable (the mean size of a weight in ±[0.5, 2] times one edge a variable)"""
    local_steps: int = 200
    """Frank-Wolfe steps a silo takes a round"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.radius > 0, "radius", self.radius, "above 0")
        require(self.local_steps >= 1, "local_steps", self.local_steps, "1 or more")


def frank_wolfe(problem: Lasso, radius: float, steps: int) -> FloatArray:
    """Return B, `[d, d]`, after `steps` steps with exact line search over ‖B‖₁ ≤ `radius` (allowed entries only).

    A step costs O(d²): S·B moves with B, and the vertex adds one column of S to one column of it.
    """
    B = problem.start * min(1.0, radius / max(float(np.abs(problem.start).sum()), 1e-300))
    _walk(problem.S, B, problem.S @ B, problem.linear, problem.r, problem.allowed, radius, steps)
    return B


@njit(cache=True)
def _steepest(S, B, SB, linear, r, allowed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the allowed entry with the largest gradient, that gradient, and ⟨gradient, B⟩ over all of them."""
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
        slope = inner - steepest * vertex  # of the way down: −⟨G, vertex − B⟩
        # ⟨D, (S + R)D⟩ for D = vertex − B: the parts of B, of the vertex and between them
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


def build(settings: FedFrankWolfe) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Return Fed-BNSL-FW."""

    def solve(problem: Lasso) -> FloatArray:
        return frank_wolfe(problem, settings.radius * len(problem.S), settings.local_steps)

    return consensus_of(settings, solve, l1_at_server=False)
