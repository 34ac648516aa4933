"""What a silo minimises: its own loss, plus what draws its parameters towards the consensus.

Consensus ADMM needs no more of a silo's rows than a `Problem` that can be solved, and no more of a model than to know
which graph its parameters stand for, and which parameters near given ones stand for a graph with few cycles. So other
models than the linear one fit. Parameters are a matrix `[m, d]`: a column for each variable, with what it depends on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..statistics.lagged import silo_windows
from ..statistics.moments import SecondMoments, products
from .consensus_step import consensus_step


@dataclass(frozen=True)
class Pull:
    """⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over the `allowed` entries of B, and where to start from."""

    linear: FloatArray
    r: FloatArray
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray


class Problem(Protocol):
    """A silo's part of the objective: made of its rows, which it keeps to itself."""

    def solve(self, pull: Pull) -> FloatArray:
        """Return the parameters that minimise this silo's loss plus `pull`, or come near enough to it."""
        ...


class Model(Protocol):
    """What is learned: its parameters `[m, d]` are what silos and server pass to and fro."""

    def rows(self, d: int) -> int:
        """Return m, how many parameters each of d variables has."""
        ...

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the parameters that may differ from zero if only `edges` `[d, d]` may be, `[m, d]`."""
        ...

    def prices(self, d: int) -> FloatArray:
        """Return what λ is multiplied by in each row, `[m]`: zero for parameters that are no weight of an edge."""
        ...

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> Problem:
        """Return the problem of `silo`, whose rows are `table` `[n_rows, d]`."""
        ...

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """Return the server's W and h(W): argmin ½Σ c_i (W_ij − target_ij)² + αh(W) + ρ₁/2 h(W)² (`consensus_step`)."""
        ...

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """Return the weighted graph that `parameters` stand for, `[d, d]`: on it h acts, and it is what is learned.

        A dynamic model's is `[(lags + 1)·d, d]`: h acts on its first d rows, the edges within one time.
        """
        ...


@dataclass(frozen=True)
class Lasso(Pull):
    """The linear silo's problem in one round: ½tr((I − B)ᵀS(I − B)) plus the pull.

    S is `[m, m]`, B `[m, d]` and I the first d columns of the identity: with m = d an ordinary regression of each
    variable on the others, with more rows of time series also on what was before.
    """

    S: FloatArray


LassoSolver = Callable[[Lasso], FloatArray]
"""minimises a lasso, exactly or as far as its steps go, over the allowed entries: B `[m, d]`"""
MomentsOf = Callable[[FloatArray, Schema, str], SecondMoments]
"""(table, schema, silo) -> what a linear problem knows of the table: moments of d variables, or of their windows"""


@dataclass(frozen=True)
class LinearProblem:
    """A linear structural equation model: its parameters are the weights B `[m, d]` themselves."""

    moments: SecondMoments
    solver: LassoSolver

    def solve(self, pull: Pull) -> FloatArray:
        """Return B for this round's `pull` (see `Problem`)."""
        return self.solver(Lasso(pull.linear, pull.r, pull.l1, pull.allowed, pull.start, self.moments.S))

    def within(self, W: FloatArray) -> FloatArray:
        """Return the second moments of the d variables within one time, `[d, d]`: of what lagged effects leave of them.

        The lagged effects are those of the consensus `W` `[m, d]`. (d/n_p)² of the diagonal comes on top: nothing where
        rows are many, and invertible where they are few.
        """
        d = W.shape[1]
        left = np.vstack([np.eye(d), -W[d:]])
        S = left.T @ self.moments.S @ left if len(W) > d else self.moments.S
        return np.asarray(S + (d / self.moments.rows) ** 2 * np.diag(positive(np.diag(S))))


def positive(squares: FloatArray) -> FloatArray:
    """Return mean `squares` with the largest in place of those that are zero: of columns constant in a silo.

    Centred, such a column explains nothing and nothing explains it, so any size will do.
    """
    return np.where(squares > 0, squares, squares.max() or 1.0)


@dataclass(frozen=True)
class LinearModel:
    """Linear structural equation models, whose silos solve their lasso with `solver`.

    With `lags`, structural vector autoregressions: below W `[d, d]` the parameters have A₁, A₂, ... (Chen, Ma & Yue
    2025, Eq. 1).
    """

    solver: LassoSolver
    moments_of: MomentsOf
    lags: int = 0
    lagged_price: float = 1.0
    """λ of lagged edges over that of edges within one time: λ_A/λ_W of Chen, Ma & Yue"""

    def rows(self, d: int) -> int:
        """Return (lags + 1)·d (see `Model`)."""
        return (self.lags + 1) * d

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return `edges` but those of a variable on itself at the same time, and all lagged ones (see `Model`)."""
        d = len(edges)
        return np.vstack([edges & ~np.eye(d, dtype=bool), np.ones((self.rows(d) - d, d), bool)])

    def prices(self, d: int) -> FloatArray:
        """Return 1 for the rows within one time and `lagged_price` for the others (see `Model`)."""
        return np.repeat([1.0, self.lagged_price], [d, self.lags * d])

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> LinearProblem:
        """Return the problem of `silo`, whose rows are `table` (see `Model`)."""
        return LinearProblem(self.moments_of(table, schema, silo), self.solver)

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """Return W and h(W) (see `Model`): no lagged edge closes a cycle, so those are as in `target`."""
        d = target.shape[1]
        W, h = consensus_step(target[:d], start[:d], curvature[:d], alpha, rho1, steps)
        return np.vstack([W, target[d:]]), h

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """Return the weights, which are the graph."""
        return parameters


def weighted_moments(table: FloatArray, schema: Schema, silo: str, *, center: bool, lags: int = 0) -> SecondMoments:
    """Return XᵀX of the rows in `table` `[n_rows, d]` over the silos' mean number of rows; with `lags` of its windows.

    Weighted like this, every row of the federation counts the same.
    """
    rows = schema.windows(lags)
    mean_rows = sum(rows.values()) / len(rows)
    if not lags:
        return SecondMoments(products(table, center=center) / mean_rows, len(table))
    X = silo_windows(table, schema, silo, lags, center=center)
    return SecondMoments(products(X) / mean_rows, len(X))
