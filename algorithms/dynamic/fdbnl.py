"""FDBNL, a dynamic Bayesian network by consensus ADMM (Chen, Ma & Yue 2025, Algorithm 1), and DYNOTEARS on one table.

The model is a structural vector autoregression, x_t = x_t W + Σ_k x_{t−k} A_k + u. With the parameters stacked as
[W; A₁; A₂; ...], every silo has a linear problem in the second moments of its windows (`statistics/lagged.py`). The
loop is that of `admm/consensus.py`. The acyclicity measure h depends only on W, because lagged edges cannot close a
cycle. By default, all our additions to that loop are used, and the silos apply the ℓ₁ terms. The presets have the
paper's closed form (§7.4) and ℓ₁ terms at the server.

What leaves a silo in each round: the changed entries of its W_k and A_k. The server needs only their sum.

DYNOTEARS, a baseline, is FDBNL's loop with a single silo (Pamfil et al. 2020). With one silo, consensus ADMM solves
DYNOTEARS' own problem: ½/n ‖X − XW − YA‖² + λ_W‖W‖₁ + λ_A‖A‖₁ subject to h(W) = 0. The penalty on h starts small and
grows.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..admm.consensus import Broadcast, Reply
from ..admm.fed_sparse import PLAIN, FedSparse, consensus_of, lasso_solver
from ..admm.notears_admm import closed_form
from ..core.protocol import FederatedAlgorithm, learn_alone
from ..core.schema import AUTO, Lags, Schema, check_lags, require_fixed_lags
from ..core.settings import Count, Factor, NonNegative
from ..graphs.structure import Structure
from ..published import presets_of


@dataclass(frozen=True)
class Fdbnl(FedSparse):
    """Settings of `fdbnl`. Thresholds are small, because the weights of a stable series are small."""

    lags: Lags = 1
    """p, how many steps back an edge may reach; auto: by BIC, in one exchange before the rounds"""
    l1: NonNegative = 0.1
    """λ_W, the price of the weight of an edge within one time step"""
    lagged_price: NonNegative = 1.0
    """λ_A / λ_W, the relative price of the weight of a lagged edge"""
    threshold: NonNegative = 0.15
    send_threshold: NonNegative = 0.001
    fix_order_h: ClassVar[float] = 0.03
    center: bool = True
    """subtract each silo's own levels: the means of its columns that differ significantly from zero"""
    closed_form: bool = False
    """solve the silo's problem in closed form, and apply the ℓ₁ terms at the server"""


PRESETS = presets_of("fdbnl", Fdbnl, **PLAIN)


def build(settings: Fdbnl) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """FDBNL. Its `open_server` raises `BadInput` if series are too short for the lags, or lags have not been chosen."""
    lags = 1 if settings.lags == AUTO else settings.lags
    algorithm = consensus_of(
        settings,
        partial(closed_form, loops=False) if settings.closed_form else lasso_solver(settings),
        l1_at_server=settings.closed_form,
        lags=lags,
        lagged_price=settings.lagged_price,
    )

    def open_server(schema: Schema) -> Any:
        check_lags(schema, require_fixed_lags(settings.lags))
        return algorithm.open_server(schema)

    return replace(algorithm, open_server=open_server)


@dataclass(frozen=True)
class Dynotears(Fdbnl):
    """Settings of DYNOTEARS on one table; rounds cost no traffic: ρ₁ grows slowly, and no small change is left out."""

    rho1_growth: Factor = 1.2
    send_threshold: NonNegative = 0.0
    rounds: Count = 200


def dynotears(table: NDArray[np.float64], schema: Schema, settings: Dynotears) -> Structure:
    """The structure that DYNOTEARS learns from `table` `[n_rows, d]`; `schema` has one silo."""
    return learn_alone(build(settings), schema, table)
