"""Consensus ADMM for linear models: Fed-Sparse-BNSL, its Frank-Wolfe baseline, and NOTEARS on one table.

Fed-Sparse-BNSL (Fassy El Fehri et al., Algorithm 1) has the ℓ₁ term at the silos, which solve their lasso by PGCD
(proximal greedy coordinate descent). What leaves a silo: the entries of B_p that changed. The server needs only their
sum. A round costs a silo its coordinate steps and one product S·B. It costs the server a few matrix exponentials of the
cyclic part of the support. The presets are the papers' loop without additions, with the settings of Fassy El Fehri et
al., Appendix B.3.2 and B.3.4. Our ρ₁ is per silo: the papers' value divided by their number of silos.

PGCD (Fassy El Fehri et al., §4.2, Eq. 8-9) takes one entry of B per step. The score of entry (i, j) is
√M_i |prox(B_ij − G_ij/M_i) − B_ij|, with G the gradient and M_i = S_ii + r_i the curvature of ROW i. (The paper's
Eq. 14 has the curvature of the column, with which even learning without noise diverges.) The entry with the highest
score takes a prox step of size γ/M_i.

A step on B_ij changes only column j of G, by δ·(S[:, i] + r_i e_i), so the columns are separate problems. Steps are
therefore taken in a working set of the column with the highest score: the nonzero entries of this column, and its
entries with a score above the tolerance. The descent in the working set ends when all its scores are at most a tenth of
the first score. The gradient and the scores of the other entries of the column are updated after that. A step costs
the size of the working set instead of O(d), and a column that is solved costs nothing.

Fed-BNSL-FW solves the silos' lasso by Frank-Wolfe (Fassy El Fehri et al., Appendix C.1; Jaggi 2013). It is a baseline
that shows why PGCD is needed. Frank-Wolfe keeps B within an ℓ₁ ball, and moves towards one vertex of the ball in each
step. It chooses the vertex by the raw gradient, which is largest for the variables of largest scale. So without
standardisation it selects the wrong entries.

NOTEARS on one table is the consensus loop with a single silo (Zheng et al. 2018; Ng & Zhang 2022, §6). With one silo,
consensus ADMM solves NOTEARS' own problem: ½/n ‖X − XW‖² + λ‖W‖₁ subject to h(W) = 0, with a growing penalty on h.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from ..compiled import njit
from ..core.protocol import FederatedAlgorithm, learn_alone
from ..core.schema import FloatArray, Schema
from ..core.settings import Count, Factor, NonNegative, Positive
from ..graphs.structure import Structure
from .consensus import Broadcast, Reply, consensus_admm
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
) -> FederatedAlgorithm[Any, Any, Any, Any]:
    """The algorithm whose silos solve their lasso with `solver`.

    `moments_of` computes a silo's moments. By default they are the weighted second moments of the rows or, with `lags`,
    of windows of rows. `lagged_price` multiplies λ for lagged edges.
    """
    own = partial(weighted_moments, center=settings.center, lags=lags)
    model = LinearModel(solver, moments_of or own, lags, lagged_price)
    if settings.any:
        return refined_admm(settings, model, l1_at_server=l1_at_server, loops=loops)
    return consensus_admm(settings, model, l1_at_server=l1_at_server, loops=loops)


Settings = TypeVar("Settings", bound=ConsensusSettings)

FED_SPARSE = {"rho1": 1000 / 8, "rho2": 1.0, "l1": 0.1, "gamma": 0.5}
"""d = 20, P = 8"""
FED_SPARSE_SACHS = {"rho1": 10_000 / 3, "rho2": 5.0, "l1": 1.0, "gamma": 0.1, "threshold": 0.1}
"""Sachs, P = 3"""
NOTEARS_ADMM = {"rho1": 1000 / 8, "rho2": 1.0, "l1": 0.01, "loops": True}
"""d = 20, P = 8"""
NOTEARS_ADMM_SACHS = {"rho1": 100_000 / 3, "rho2": 10.0, "l1": 0.1, "loops": True, "threshold": 0.1}
"""Sachs, P = 3"""


def paper_settings(kind: type[Settings], literals: dict[str, Any]) -> Settings:
    """The settings `kind` of the papers' loop without additions, with the values `literals` of a paper."""
    return kind(**asdict(ConsensusSettings()) | asdict(Additions()) | literals)


@dataclass(frozen=True)
class FedSparse(RefinedSettings):
    """Settings of `fed-sparse`."""

    gamma: Annotated[float, Gt(0), Le(1)] = 1.0
    """γ, the step of a coordinate relative to its curvature"""
    local_steps: Count = 100_000
    """K, maximum number of coordinate steps of a silo per round"""


PRESETS = {
    "paper": paper_settings(FedSparse, FED_SPARSE),
    "paper-sachs": paper_settings(FedSparse, FED_SPARSE_SACHS),
    # Centred columns at each silo, and τ = 0.3, selected with the 18-edge true graph, like the paper's values.
    "sachs": replace(paper_settings(FedSparse, FED_SPARSE_SACHS), center=True, threshold=0.3),
}


def lasso_solver(settings: FedSparse) -> LassoSolver:
    """The silo's solver: PGCD with these settings."""

    def solve(problem: Lasso) -> FloatArray:
        unit = float(np.sqrt(replace_zeros(np.diag(problem.S)).min())) if settings.scaled else 1.0
        return pgcd(problem, settings.gamma, LOCAL_TOLERANCE * unit, settings.local_steps)

    return solve


LOCAL_TOLERANCE = 1e-3
"""a silo's lasso counts as solved when all scores are at most this, in units of the smallest root mean square"""
WORKING_SET_TOLERANCE = 0.1
"""the descent in a working set ends at this share of the score with which it began"""


def pgcd(problem: Lasso, gamma: float, tolerance: float, steps: int) -> FloatArray:
    """The approximate minimiser of `problem`, `[m, d]`, by descent from `problem.start`.

    The descent stops when no score exceeds `tolerance`, or after `steps` steps.
    """
    # A step reads whole columns, which are contiguous in transposed copies.
    B, G, allowed = (np.array(part.T, float, order="C") for part in (problem.start, problem.linear, problem.allowed))
    _descend(problem.S, B, G, problem.r, problem.l1, allowed, gamma, tolerance, steps)
    return np.ascontiguousarray(B.T)


@njit(cache=True)
def _descend(S, B, G, r, l1, allowed, gamma, tolerance, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Descend in place; `B`, `G` and `allowed` (one or zero) are transposed: `[d, m]`.

    `G` begins as the linear term and becomes the gradient.
    """
    d, m = B.shape
    M = np.diag(S) + r
    inverse, roots, shrinkage = 1 / M, np.sqrt(M), l1 / M
    best, scores = np.empty(d), np.empty(m)
    for j in range(d):
        G[j] -= S[j]
        _follow(G[j], np.flatnonzero(B[j]), B[j], S, r)
        best[j] = _best(B[j], G[j], inverse, roots, shrinkage, allowed[j], scores)[0]
    while steps > 0:
        greatest, j = _first_greatest(best)
        if greatest <= tolerance:
            return
        _best(B[j], G[j], inverse, roots, shrinkage, allowed[j], scores)
        rows = np.flatnonzero((scores > tolerance) | (B[j] != 0))
        enough = max(tolerance, WORKING_SET_TOLERANCE * greatest)
        scaling = inverse[rows], roots[rows], shrinkage[rows], allowed[j][rows]
        before = B[j].copy()
        left = _descend_within(rows, S, B[j], G[j][rows], r, scaling, gamma, enough, steps)
        if left == steps:  # the best score is above the tolerance by a rounding error, or numbers overflowed
            return
        steps = left
        _follow(G[j], rows, B[j] - before, S, r)
        best[j] = _best(B[j], G[j], inverse, roots, shrinkage, allowed[j], scores)[0]


@njit(cache=True)
def _follow(g, rows, change, S, r):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Update the gradient `g` of a column after a `change` of its weights in `rows`."""
    for i in rows:
        if change[i] != 0:
            g[i] += r[i] * change[i]
            for k in range(len(g)):
                g[k] += S[i, k] * change[i]


@njit(cache=True)
def _descend_within(rows, S, b, g, r, scaling, gamma, tolerance, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Descend in place in the entries `rows` of a column `b`, where `g` is the gradient; return the steps left."""
    inverse, roots, shrinkage, allowed = scaling
    weights, scores = b[rows], np.empty(len(rows))
    while steps > 0 and len(rows) > 0:
        score, at = _best(weights, g, inverse, roots, shrinkage, allowed, scores)
        if score <= tolerance:
            break
        moved = _prox(weights[at] - gamma * inverse[at] * g[at], gamma * shrinkage[at])
        delta, i = moved - weights[at], rows[at]
        weights[at] = moved
        for k in range(len(rows)):
            g[k] += S[i, rows[k]] * delta
        g[at] += r[i] * delta
        steps -= 1
    b[rows] = weights
    return steps


@njit(cache=True, fastmath={"nnan", "nsz"})
def _best(b, g, inverse, roots, shrinkage, allowed, scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The greatest score in a column with weights b and gradient g, and its row; `scores` `[m]` is scratch space."""
    for i in range(len(b)):
        x = b[i] - g[i] * inverse[i]
        scores[i] = roots[i] * abs(np.copysign(max(abs(x) - shrinkage[i], 0.0), x) - b[i]) * allowed[i]
    return _first_greatest(scores)


@njit(cache=True, fastmath={"nnan", "nsz"})  # numbers are finite: a maximum without a branch is vectorised
def _first_greatest(scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The greatest of `scores` `[n]`, at least 0, and its first position."""
    greatest = 0.0
    for i in range(len(scores)):
        greatest = max(greatest, scores[i])
    for i in range(len(scores)):
        if scores[i] == greatest:
            return greatest, i
    return 0.0, 0


@njit(cache=True)
def _prox(x: float, by: float) -> float:
    return x - by if x > by else (x + by if x < -by else 0.0)


def build(
    settings: FedSparse, moments_of: MomentsOf | None = None, lags: int = 0
) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Fed-Sparse-BNSL; `moments_of` computes a silo's moments, by default the weighted ones of its rows."""
    return consensus_of(settings, lasso_solver(settings), moments_of, l1_at_server=False, lags=lags)


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


@dataclass(frozen=True)
class Notears(FedSparse):
    """Settings of NOTEARS on one table; rounds cost no traffic, so ρ₁ grows slowly, and no small change is left out."""

    rho1_growth: Factor = 1.2
    send_threshold: NonNegative = 0.0
    rounds: Count = 200


def notears(table: NDArray[np.float64], schema: Schema, settings: Notears) -> Structure:
    """The structure that NOTEARS learns from `table` `[n_rows, n_variables]`, a silo with this `schema`."""
    return learn_alone(build(settings), schema, table)
