"""The models of consensus ADMM, and the problems that they give each silo.

A silo minimises its own loss plus a `Pull` towards the consensus. Consensus ADMM needs a `Problem`, which solves the
silo's part, and a `Model`, which maps parameters to a graph and projects them towards acyclic graphs. Both exist here
for linear models, and in `mlp/admm.py` for perceptrons. Parameters are a matrix `[m, d]` with a column for each
variable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..statistics.lagged import silo_windows
from ..statistics.moments import SecondMoments, Table, products
from .acyclicity import consensus_step


@dataclass(frozen=True)
class Pull:
    """⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over the `allowed` entries of B, and the starting point.

    Raises `FloatingPointError` if a number is not finite, because compiled solvers assume finite numbers.
    """

    linear: FloatArray
    r: FloatArray
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray

    def __post_init__(self) -> None:
        _require_finite("the terms of the coordinator", self.linear, self.r, self.l1, self.start)


class Problem(Protocol):
    """A silo's part of the objective, computed from its private rows."""

    def solve(self, pull: Pull) -> FloatArray:
        """The parameters that minimise this silo's loss plus `pull`, exactly or approximately."""
        ...


class Model(Protocol):
    """A model whose parameters `[m, d]` silos and server exchange."""

    def rows(self, d: int) -> int:
        """m, the number of parameters of each of d variables."""
        ...

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The parameters that may differ from zero if only `edges` `[d, d]` are possible, `[m, d]`."""
        ...

    def penalty_factors(self, d: int) -> FloatArray:
        """The factor of λ in each row, `[m]`: zero for parameters that are not weights of edges."""
        ...

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> Problem:
        """The problem of `silo`, whose rows are `table` `[n_rows, d]`."""
        ...

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """The server's W and h(W): argmin ½Σ c_i (W_ij − target_ij)² + αh(W) + ρ₁/2 h(W)² (`consensus_step`)."""
        ...

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """The weighted graph of `parameters`, `[d, d]`, from which h is computed.

        The graph of a dynamic model is `[(lags + 1)·d, d]`. Its h is computed from the first d rows, which are the
        edges within one time step.
        """
        ...


@dataclass(frozen=True)
class Lasso(Pull):
    """The linear silo's problem in one round: ½tr((I − B)ᵀS(I − B)) plus the pull.

    S is `[m, m]`, B is `[m, d]`, and I has the first d columns of the identity. The loss regresses each variable on the
    other variables and, if m > d, also on lagged values.
    """

    S: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_finite("the moments of the rows", self.S)


def _require_finite(what: str, *numbers: FloatArray) -> None:
    if not all(np.isfinite(one).all() for one in numbers):
        raise FloatingPointError(f"{what} include numbers that are not finite")


LassoSolver = Callable[[Lasso], FloatArray]
"""minimises a lasso over the allowed entries, exactly or up to a maximum number of steps: B `[m, d]`"""
MomentsOf = Callable[[FloatArray, Schema, str], SecondMoments]
"""(table, schema, silo) -> the moments of a linear problem: of d variables, or of their windows"""


@dataclass(frozen=True)
class LinearProblem:
    """A linear structural equation model: its parameters are the weights B `[m, d]` themselves."""

    moments: SecondMoments
    solver: LassoSolver

    def solve(self, pull: Pull) -> FloatArray:
        """B for this round's `pull` (see `Problem`)."""
        return self.solver(Lasso(pull.linear, pull.r, pull.l1, pull.allowed, pull.start, self.moments.S))

    def contemporaneous_moments(self, W: FloatArray) -> FloatArray:
        """The second moments of the d variables within one time step, minus the lagged effects, `[d, d]`.

        The lagged effects are those of the consensus `W` `[m, d]`. A ridge of (d/n_p)² times the diagonal makes the
        matrix invertible with few rows; with many rows it is negligible.
        """
        d = W.shape[1]
        left = np.vstack([np.eye(d), -W[d:]])
        S = left.T @ self.moments.S @ left if len(W) > d else self.moments.S
        return np.asarray(S + (d / self.moments.rows) ** 2 * np.diag(replace_zeros(np.diag(S))))


def replace_zeros(squares: FloatArray) -> FloatArray:
    """The mean `squares` `[d]`, with the largest mean square in place of zeros.

    A mean square is zero if the centred column is constant in a silo. Such a column has no covariance with any other
    column, so any positive value works.
    """
    return np.where(squares > 0, squares, squares.max() or 1.0)


@dataclass(frozen=True)
class LinearModel:
    """Linear structural equation models, whose silos solve their lasso with `solver`.

    With `lags`, structural vector autoregressions: W `[d, d]` is stacked on A₁, A₂, ... (Chen, Ma & Yue
    2025, Eq. 1).
    """

    solver: LassoSolver
    moments_of: MomentsOf
    lags: int = 0
    lagged_price: float = 1.0
    """λ of lagged edges divided by λ of edges within one time step: λ_A/λ_W of Chen, Ma & Yue"""

    def rows(self, d: int) -> int:
        """(lags + 1)·d (see `Model`)."""
        return (self.lags + 1) * d

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """`edges` without self-loops, and all lagged edges (see `Model`)."""
        d = len(edges)
        return np.vstack([edges & ~np.eye(d, dtype=bool), np.ones((self.rows(d) - d, d), bool)])

    def penalty_factors(self, d: int) -> FloatArray:
        """1 for the rows within one time step and `lagged_price` for the others (see `Model`)."""
        return np.repeat([1.0, self.lagged_price], [d, self.lags * d])

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> LinearProblem:
        """The problem of `silo`, whose rows are `table` (see `Model`)."""
        return LinearProblem(self.moments_of(table, schema, silo), self.solver)

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """W and h(W) (see `Model`); the lagged rows equal `target`, because lagged edges close no cycle."""
        d = target.shape[1]
        W, h = consensus_step(target[:d], start[:d], curvature[:d], alpha, rho1, steps)
        return np.vstack([W, target[d:]]), h

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """The weights, which are the graph."""
        return parameters


def weighted_moments(table: Table, schema: Schema, silo: str, *, center: bool, lags: int = 0) -> SecondMoments:
    """XᵀX / n̄ for the rows of `table` `[n_rows, d]` or, with `lags`, for windows of rows.

    n̄ is the mean number of rows (or windows) over the silos. This divisor gives every row of the federation the same
    weight.
    """
    rows = schema.windows(lags)
    mean_rows = sum(rows.values()) / len(rows)
    if not lags:
        return SecondMoments(products(table, center=center) / mean_rows, table.shape[0])
    X = silo_windows(table, schema, silo, lags, center=center)
    return SecondMoments(products(X) / mean_rows, X.shape[0])
