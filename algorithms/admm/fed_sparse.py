"""Fed-Sparse-BNSL: consensus ADMM with the ℓ₁ term at the silos, solved by PGCD (Fassy El Fehri et al., Algorithm 1).

What leaves a silo: the entries of B_p that changed. What the server needs: their sum. A round costs a silo O(d) a
coordinate step and one product S·B; it costs the server L-BFGS on the cyclic part of the support.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray
from ..errors import require
from .algorithm import consensus_of
from .messages import Broadcast, Reply
from .papers import FED_SPARSE, FED_SPARSE_SACHS, papers_own
from .pgcd import pgcd
from .problem import Lasso, LassoSolver, MomentsOf, positive
from .settings import RefinedSettings


@dataclass(frozen=True)
class FedSparse(RefinedSettings):
    """Settings of `fed-sparse`."""

    gamma: float = 1.0
    """γ, the step of a coordinate relative to its curvature"""
    local_tolerance: float = 1e-3
    """scores at which a silo's lasso counts as solved, in units of the smallest variable's root mean square"""
    local_steps: int = 100_000
    """K, coordinate steps a silo takes a round, at most"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(0 < self.gamma <= 1, "gamma", self.gamma, "above 0 and at most 1")
        require(self.local_tolerance >= 0, "local_tolerance", self.local_tolerance, "0 or more")
        require(self.local_steps >= 1, "local_steps", self.local_steps, "1 or more")


PRESETS = {
    "paper": papers_own(FedSparse, FED_SPARSE),
    "paper-sachs": papers_own(FedSparse, FED_SPARSE_SACHS),
    # Each silo's columns centred and τ = 0.3, chosen like the paper's own by looking at the 18-edge truth.
    "sachs": replace(papers_own(FedSparse, FED_SPARSE_SACHS), center=True, threshold=0.3),
}


def lasso_solver(settings: FedSparse) -> LassoSolver:
    """Return the silo's solver: PGCD with these settings."""

    def solve(problem: Lasso) -> FloatArray:
        unit = float(np.sqrt(positive(np.diag(problem.S)).min())) if settings.scaled else 1.0
        return pgcd(problem, settings.gamma, settings.local_tolerance * unit, settings.local_steps)

    return solve


def build(
    settings: FedSparse, moments_of: MomentsOf | None = None, lags: int = 0
) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Return Fed-Sparse-BNSL; `moments_of` says what a silo knows of its rows, by default their weighted moments."""
    return consensus_of(settings, lasso_solver(settings), moments_of, l1_at_server=False, lags=lags)
