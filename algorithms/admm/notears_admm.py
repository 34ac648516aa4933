"""NOTEARS-ADMM (Fed-BNSL): consensus ADMM whose local problem has a closed form (Ng & Zhang 2022, Algorithm 1, Eq. 8).

What leaves a silo in every round: nearly all entries of B_p. The entries of round 1 determine the silo's second moments
S_p (Fassy El Fehri et al., A.1). The server needs only the sum over the silos. A round costs a silo one Cholesky
factorisation, O(d³).

B_jj = 0 is a constraint of the local problem, because a DAG has no self-loops. The papers omit this constraint. Without
it, B_p starts near the identity, which predicts every variable by itself, and needs about ten rounds to move away.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray
from ..core.settings import NonNegative
from ..published import presets_of
from .consensus import Broadcast, Reply
from .fed_sparse import PLAIN, consensus_of
from .model_metric import least_squares
from .problem import Lasso, MomentsOf
from .settings import RefinedSettings


@dataclass(frozen=True)
class NotearsAdmm(RefinedSettings):
    """Settings of `notears-admm`."""

    least_l1: ClassVar[float] = 0.01
    send_threshold: NonNegative = 0.003
    loops: bool = False
    """leave the diagonal of B_p free, as the papers do"""
    mean_loss: bool = False
    """ρ₂ weighs against the mean of the silos' losses, as in the program of Ng & Zhang, and not against their sum"""


PRESETS = presets_of("notears-admm", NotearsAdmm, **PLAIN)


def closed_form(problem: Lasso, loops: bool) -> FloatArray:
    """The minimiser B `[m, d]` of ½tr(BᵀSB) − ⟨S − linear, B⟩ + ½Σ r_i B_ij²; λ is zero, because the server applies it.

    With `loops`, all entries are free, whatever is allowed: B = (S + R)⁻¹(S − linear) for R = diag(r) (Ng & Zhang 2022,
    Eq. 8; with lags, the block system of Chen, Ma & Yue 2025, §7.4). Without, only the allowed entries are free.
    """
    m, d = problem.start.shape
    A = problem.S + np.diag(problem.r)
    right = problem.S[:, :d] - problem.linear
    if loops:
        return np.asarray(cho_solve(cho_factor(A), right))
    if problem.allowed.sum() == (m - 1) * d:
        inverse = cho_solve(cho_factor(A), np.eye(m))
        B = inverse @ right
        B -= inverse[:, :d] * (np.diag(B) / np.diag(inverse)[:d])
        np.fill_diagonal(B, 0.0)
        return np.asarray(B)
    return least_squares(A, right, problem.allowed)


def build(
    settings: NotearsAdmm, moments_of: MomentsOf | None = None, lags: int = 0
) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """NOTEARS-ADMM; `moments_of` computes a silo's moments, by default the weighted ones of its rows."""

    def solve(problem: Lasso) -> FloatArray:
        return closed_form(problem, settings.loops)

    return consensus_of(
        settings,
        solve,
        moments_of,
        l1_at_server=True,
        lags=lags,
        loops=settings.loops,
        mean_loss=settings.mean_loss,
    )
