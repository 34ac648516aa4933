"""Consensus ADMM for linear models, put together: the papers' loop, with what is added to it where something is."""

from functools import partial
from typing import Any

from ..core.protocol import FederatedAlgorithm
from .consensus import consensus_admm
from .problem import LassoSolver, LinearModel, MomentsOf, weighted_moments
from .refined import refined_admm
from .settings import RefinedSettings


def consensus_of(
    settings: RefinedSettings,
    solver: LassoSolver,
    moments_of: MomentsOf | None = None,
    *,
    l1_at_server: bool,
    lags: int = 0,
    lagged_price: float = 1.0,
    loops: bool = False,
) -> FederatedAlgorithm[Any, Any, Any, Any]:
    """Return the algorithm whose silos solve their lasso with `solver`.

    `moments_of` says what a silo knows of its rows, by default the weighted second moments of them, or of their
    windows of so many `lags`, where λ is multiplied by `lagged_price`.
    """
    own = partial(weighted_moments, center=settings.center, lags=lags)
    model = LinearModel(solver, moments_of or own, lags, lagged_price)
    if settings.any:
        return refined_admm(settings, model, l1_at_server=l1_at_server, loops=loops)
    return consensus_admm(settings, model, l1_at_server=l1_at_server, loops=loops)
