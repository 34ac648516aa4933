"""Fed-Sparse-BNSL: consensus ADMM for linear models, with the ℓ₁ term at the silos.

Source: Fassy El Fehri et al., Algorithm 1.

The silos solve their lasso by PGCD (`pgcd.py`). What leaves a silo: the entries of B_p that changed. The server needs
only their sum. A round costs a silo its coordinate steps and one product S·B. It costs the server a few matrix
exponentials of the cyclic part of the support. The presets of the paper (`published.py`) have no additions of ours.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt, Le

from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray
from ..core.settings import Count
from ..published import presets_of
from .consensus import Broadcast, Reply, consensus_admm
from .pgcd import LOCAL_TOLERANCE, pgcd
from .problem import Lasso, LassoSolver, LinearModel, MomentsOf, replace_zeros, weighted_moments
from .settings import Additions, ConsensusSettings, RefinedSettings
from .staged_admm import refined_admm


def consensus_of(
    settings: RefinedSettings,
    solver: LassoSolver,
    moments_of: MomentsOf | None = None,
    *,
    l1_at_server: bool,
    lags: int = 0,
    lagged_price: float = 1.0,
    loops: bool = False,
    mean_loss: bool = False,
) -> FederatedAlgorithm[Any, Any, Any, Any]:
    """The algorithm whose silos solve their lasso with `solver`.

    `moments_of` computes a silo's moments. By default they are the weighted second moments of the rows or, with `lags`,
    of windows of rows. `lagged_price` multiplies λ for lagged edges.
    """
    own = partial(weighted_moments, center=settings.center, lags=lags)
    model = LinearModel(solver, moments_of or own, lags, lagged_price)
    if settings.any:
        return refined_admm(settings, model, l1_at_server=l1_at_server, loops=loops, mean_loss=mean_loss)
    return consensus_admm(settings, model, l1_at_server=l1_at_server, loops=loops, mean_loss=mean_loss)


PLAIN = asdict(ConsensusSettings()) | asdict(Additions())
"""the settings of the papers' loop, without our additions"""


@dataclass(frozen=True)
class FedSparse(RefinedSettings):
    """Settings of `fed-sparse`."""

    gamma: Annotated[float, Gt(0), Le(1)] = 1.0
    """γ, the step of a coordinate relative to its curvature"""
    local_steps: Count = 100_000
    """K, maximum number of coordinate steps of a silo per round"""


PRESETS = presets_of("fed-sparse", FedSparse, **PLAIN)
# Centred columns at each silo, and τ = 0.3, selected with the 18-edge true graph, like the paper's values.
PRESETS["sachs"] = replace(PRESETS["paper-sachs"], center=True, threshold=0.3)


def lasso_solver(settings: FedSparse) -> LassoSolver:
    """The silo's solver: PGCD with these settings."""

    def solve(problem: Lasso) -> FloatArray:
        unit = float(np.sqrt(replace_zeros(np.diag(problem.S)).min())) if settings.scaled else 1.0
        return pgcd(problem, settings.gamma, LOCAL_TOLERANCE * unit, settings.local_steps)

    return solve


def build(
    settings: FedSparse, moments_of: MomentsOf | None = None, lags: int = 0
) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Fed-Sparse-BNSL; `moments_of` computes a silo's moments, by default the weighted ones of its rows."""
    return consensus_of(settings, lasso_solver(settings), moments_of, l1_at_server=False, lags=lags)
